// The order of the tile list: the closed form that the builders evaluate entry by entry is that of a plain
// walk over the experts, and lets blocks that take two entries share as many weights as they can.
#include "tile_order.hpp"

#include <algorithm>
#include <numeric>
#include <random>

#include "catch.hpp"
#include "tile_list.hpp"

using namespace dropless;

namespace {

using Tiles = std::vector<std::pair<std::int32_t, std::int32_t>>;  // (expert, tile of the expert)

Tiles closed_form(const std::vector<std::int32_t>& tiles_per_expert) {
  const auto experts = static_cast<std::int32_t>(tiles_per_expert.size());
  std::vector<std::int32_t> arrays(static_cast<std::size_t>(tile_order_words(experts)));
  std::partial_sum(tiles_per_expert.begin(), tiles_per_expert.end(), arrays.begin() + 1);
  std::vector<std::uint32_t> odd_experts(arrays.size() - tiles_per_expert.size() - 1);
  for (std::size_t e = 0; e < tiles_per_expert.size(); ++e)
    odd_experts[e / 32] |= static_cast<std::uint32_t>(tiles_per_expert[e] % 2) << e % 32;
  const TileOrder order{arrays.data(), odd_experts.data(), experts};
  Tiles tiles;
  for (std::int32_t entry = 0; entry < arrays[tiles_per_expert.size()]; ++entry)
    tiles.emplace_back(order.at(entry).expert, order.at(entry).index);
  return tiles;
}

Tiles by_expert(const std::vector<std::int32_t>& tiles_per_expert) {
  Tiles tiles;
  for (std::size_t e = 0; e < tiles_per_expert.size(); ++e)
    for (std::int32_t tile = 0; tile < tiles_per_expert[e]; ++tile)
      tiles.emplace_back(static_cast<std::int32_t>(e), tile);
  return tiles;
}

/// How many entries 2i have the same expert as 2i + 1.
std::ptrdiff_t pairs_of_one_expert(const Tiles& tiles) {
  std::ptrdiff_t pairs = 0;
  for (std::size_t i = 0; i + 1 < tiles.size(); i += 2) pairs += tiles[i].first == tiles[i + 1].first;
  return pairs;
}

/// Whether all that is promised of the order holds.
bool is_right(const std::vector<std::int32_t>& tiles_per_expert) {
  const Tiles tiles = closed_form(tiles_per_expert), plain = by_expert(tiles_per_expert);
  Tiles sorted = tiles;
  std::sort(sorted.begin(), sorted.end());
  std::ptrdiff_t most_pairs = 0;
  for (const std::int32_t count : tiles_per_expert) most_pairs += count / 2;
  const auto whole_pairs = [&](Tiles list) {
    list.erase(std::remove_if(list.begin(), list.end(),
                              [&](const auto& tile) {
                                return tile.second / 2 ==
                                       tiles_per_expert[static_cast<std::size_t>(tile.first)] / 2;
                              }),
               list.end());
    return list;
  };
  return tiles == test::listed_tiles(tiles_per_expert) && sorted == plain &&
         pairs_of_one_expert(tiles) == most_pairs && whole_pairs(tiles) == whole_pairs(plain);
}

}  // namespace

TEST_CASE("tile order: every list of up to six experts with up to five tiles each") {
  for (std::size_t experts = 0; experts <= 6; ++experts) {
    std::vector<std::int32_t> counts(experts, 0);
    for (bool more = true; more;) {
      if (!is_right(counts)) FAIL("tiles per expert: " << Catch::Detail::stringify(counts));
      more = false;
      for (std::int32_t& count : counts) {
        more = count < 5;
        count = more ? count + 1 : 0;
        if (more) break;
      }
    }
  }
}

TEST_CASE("tile order: many experts, most of them even or empty") {
  std::mt19937 random(5);
  for (const std::size_t experts : {31u, 32u, 33u, 128u, 1000u, 4096u})
    for (const unsigned one_in : {1u, 2u, 50u, 2000u}) {
      std::vector<std::int32_t> counts(experts);
      for (std::int32_t& count : counts)
        count = static_cast<std::int32_t>(random() % 3 * 2 + (random() % one_in == 0));
      INFO(experts << " experts, one in " << one_in << " odd");
      REQUIRE(is_right(counts));
    }
}

TEST_CASE("tile order: an odd expert's last tile waits for the next one's") {
  CHECK(closed_form({3, 2, 1, 1}) == Tiles{{0, 0}, {0, 1}, {1, 0}, {1, 1}, {0, 2}, {2, 0}, {3, 0}});
}
