// The order of the weight gradients' tiles: every expert has one rank, larger experts come first, every tile
// has one place, and the blocks of a grid deal every place exactly once.
#include "sm90/expert_order.hpp"

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "catch.hpp"

using dropless::sm90::dealt_place;
using dropless::sm90::expert_rank;
using dropless::sm90::ranked_tile;

TEST_CASE("experts are ordered by rows, equals by index") {
  std::mt19937 random(7);
  for (const int experts : {1, 2, 7, 64, 300}) {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(experts));
    for (auto& count : rows) count = static_cast<std::int32_t>(random() % 20) - 1;
    std::vector<std::int32_t> expected(rows.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](std::int32_t a, std::int32_t b) {
      return rows[static_cast<std::size_t>(a)] > rows[static_cast<std::size_t>(b)];
    });
    std::vector<std::int32_t> order(rows.size(), -1);
    for (std::int32_t expert = 0; expert < experts; ++expert)
      order[static_cast<std::size_t>(expert_rank(rows.data(), experts, expert))] = expert;
    REQUIRE(order == expected);
  }
}

TEST_CASE("the blocks of a grid deal every place once") {
  for (const std::uint32_t blocks : {1u, 2u, 5u, 132u})
    for (const std::uint32_t size : {0u, 1u, 4u, 131u, 132u, 133u, 1000u}) {
      std::vector<int> seen(size, 0);
      for (std::uint32_t block = 0; block < blocks; ++block)
        for (std::uint32_t round = 0; round * blocks < size; ++round)
          if (const std::uint32_t place = dealt_place(round, block, blocks); place < size) ++seen[place];
      REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
}

TEST_CASE("every tile of every expert has one place, the largest expert's beside the smallest's") {
  for (const std::uint32_t experts : {1u, 2u, 3u, 8u, 65u})
    for (const std::uint32_t tiles : {1u, 2u, 7u, 96u})
      for (const bool in_pairs : {false, true}) {
        std::vector<int> seen(experts * tiles, 0);
        std::uint32_t previous = 0;
        for (std::uint32_t place = 0; place < experts * tiles; ++place) {
          const auto [rank, tile] = ranked_tile(place, tiles, experts, in_pairs);
          REQUIRE(rank < experts);
          REQUIRE(tile < tiles);
          ++seen[rank * tiles + tile];
          if (in_pairs && place % 2 == 1 && place / (2 * tiles) < experts / 2)
            REQUIRE(rank + previous == experts - 1);
          if (!in_pairs) REQUIRE(rank >= previous);
          previous = rank;
        }
        REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
      }
}
