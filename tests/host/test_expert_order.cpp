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
using dropless::sm90::ExpertRuns;
using dropless::sm90::ExpertTileOrder;
using dropless::sm90::TileRun;

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

TEST_CASE("every tile of every expert is in one run, the largest expert's beside the smallest's") {
  for (const std::uint32_t experts : {1u, 2u, 3u, 8u, 65u})
    for (const std::uint32_t tiles : {1u, 2u, 7u, 96u})
      for (const std::uint32_t run : {1u, 3u, 4u, 5u, 7u})
        for (const bool in_pairs : {false, true})
          for (std::uint32_t in_runs = 0; in_runs <= experts; in_runs += in_pairs ? 2 : 1) {
            const ExpertTileOrder order{{experts, tiles, run, in_runs, in_pairs}};
            std::vector<int> seen(experts * tiles, 0), ranked(experts, 0);
            TileRun previous{};
            for (std::uint32_t place = 0; place < order.size(); ++place) {
              const TileRun at = order.at(place);
              REQUIRE(at.position < experts);
              REQUIRE(at.count >= 1);
              REQUIRE(at.count <= (at.position < in_runs ? run : 1));
              REQUIRE(at.tile + at.count <= tiles);
              for (std::uint32_t i = 0; i < at.count; ++i) ++seen[at.position * tiles + at.tile + i];
              if (in_pairs && at.position % 2 == 1) {
                REQUIRE(at.position == previous.position + 1);
                REQUIRE(at.tile == previous.tile);
                REQUIRE(order.rank_at(at.position) + order.rank_at(previous.position) == experts - 1);
              }
              if (!in_pairs) REQUIRE(order.rank_at(at.position) == at.position);
              REQUIRE(at.position + 1 >= previous.position);
              previous = at;
            }
            REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
            for (std::uint32_t position = 0; position < experts; ++position)
              ++ranked[order.rank_at(position)];
            REQUIRE(std::all_of(ranked.begin(), ranked.end(), [](int times) { return times == 1; }));
          }
}

TEST_CASE("every tile is in one run beside large experts, theirs alone and in turn with the others'") {
  for (const std::uint32_t experts : {1u, 2u, 3u, 8u, 65u})
    for (const std::uint32_t tiles : {1u, 2u, 7u, 96u})
      for (const std::uint32_t run : {1u, 3u, 4u, 5u, 7u})
        for (std::uint32_t in_runs = 0; in_runs <= experts; in_runs += 2)
          for (const std::uint32_t large : {1u, 2u, 3u, 5u, 8u, 64u, 65u}) {
            if (large > experts) continue;
            const ExpertTileOrder order{{experts, tiles, run, in_runs, true}, large};
            std::vector<int> seen(experts * tiles, 0), ranked(experts, 0);
            std::uint32_t places_of_large = 0, places_of_others = 0;
            for (std::uint32_t place = 0; place < order.size(); ++place) {
              const TileRun at = order.at(place);
              REQUIRE(at.position < experts);
              REQUIRE(at.count >= 1);
              REQUIRE(at.count <= (at.position < large ? 1 : 2 * run));
              REQUIRE(at.tile + at.count <= tiles);
              for (std::uint32_t i = 0; i < at.count; ++i) ++seen[at.position * tiles + at.tile + i];
              ++(at.position < large ? places_of_large : places_of_others);
              const bool is_large = at.position < large;
              if (is_large != (place % 2 == 0))  // only once either kind is at its end
                REQUIRE((is_large ? places_of_others : places_of_large) * 2 <= place);
            }
            REQUIRE(places_of_large == large * tiles);
            REQUIRE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
            for (std::uint32_t position = 0; position < experts; ++position) {
              const std::uint32_t rank = order.rank_at(position);
              REQUIRE((position < large) == (rank < large));
              ++ranked[rank];
            }
            REQUIRE(std::all_of(ranked.begin(), ranked.end(), [](int times) { return times == 1; }));
          }
}

TEST_CASE("the largest expert's tiles begin beside the smallest's, and single tiles end the order") {
  const ExpertTileOrder order{{6, 16, 4, 4, true}, 2};
  REQUIRE(order.size() == 2 * 16 + 2 * 2 + 2 * 16);
  CHECK(order.at(0).position == 0);
  CHECK(order.rank_at(order.at(0).position) == 0);
  CHECK(order.at(0).count == 1);
  CHECK(order.rank_at(order.at(1).position) == 5);
  CHECK(order.at(1).count == 8);
  CHECK(order.at(2).tile == 1);
  CHECK(order.rank_at(order.at(62).position) == 1);
  CHECK(order.at(62).tile == 15);
  CHECK(order.rank_at(order.at(67).position) == 2);
}

TEST_CASE("a run is cut short by the expert's last tile, not by the raster") {
  const ExpertRuns order{4, 7, 4, 2, true};
  REQUIRE(order.size() == 2 * 2 + 2 * 7);
  const auto require_run = [&](std::uint32_t place, std::uint32_t position, std::uint32_t tile,
                               std::uint32_t count) {
    const TileRun at = order.at(place);
    CHECK(at.position == position);
    CHECK(at.tile == tile);
    CHECK(at.count == count);
  };
  require_run(0, 0, 0, 4);
  require_run(1, 1, 0, 4);
  require_run(2, 0, 4, 3);
  require_run(3, 1, 4, 3);
  require_run(4, 2, 0, 1);
  require_run(5, 3, 0, 1);
  require_run(17, 3, 6, 1);
}
