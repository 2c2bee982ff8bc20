// Pairs of blocks: which products take them, and that between them the blocks compute every element once.
#include "sm90/pair_schedule.hpp"

#include <algorithm>
#include <vector>

#include "catch.hpp"

using namespace dropless::sm90;

TEST_CASE("pairs are taken where experts have 161 to 256 rows and k is long") {
  CHECK_FALSE(takes_pairs(160 * 64, 64, 2048, 132));
  CHECK(takes_pairs(160 * 64 + 1, 64, 2048, 132));
  CHECK(takes_pairs(256 * 64, 64, 2048, 132));
  CHECK_FALSE(takes_pairs(256 * 64 + 1, 64, 2048, 132));
  CHECK(takes_pairs(200, 1, 1024, 2));
  CHECK_FALSE(takes_pairs(200, 1, 1023, 2));
  CHECK_FALSE(takes_pairs(200, 1, 1024, 1));
  CHECK_FALSE(takes_pairs(0, 0, 1024, 132));
}

TEST_CASE("pairs: their blocks compute every subtile of every row tile once") {
  for (const std::uint32_t row_tiles : {0u, 1u, 2u, 5u, 8u, 33u, 132u})
    for (std::uint32_t subtiles = 1; subtiles <= 13; ++subtiles)
      for (const std::uint32_t blocks : {2u, 6u, 16u, 132u}) {
        const TileSchedule schedule = schedule_together(
            blocks_of_a_pair, row_tiles, (subtiles + tile_subtiles - 1) / tile_subtiles, 8, subtiles, blocks);
        std::vector<int> times(row_tiles * subtiles);
        for (std::uint32_t place = 0; place < schedule.size(); ++place) {
          const ScheduledTile pair = schedule.at(place);
          for (std::uint32_t rank = 0; rank < blocks_of_a_pair; ++rank) {
            const auto [row_tile, first, count] = tile_of_block(pair, row_tiles, rank);
            REQUIRE(row_tile < row_tiles);  // its rows are loaded even where no subtile is
            REQUIRE(count <= pair.subtiles);
            REQUIRE((count == 0 || first + count <= subtiles));
            for (std::uint32_t i = 0; i < count; ++i) ++times[row_tile * subtiles + first + i];
          }
        }
        INFO(row_tiles << " row tiles, " << subtiles << " subtiles, " << blocks << " blocks");
        REQUIRE(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
      }
}

TEST_CASE("pairs: two row tiles are computed by the same features, a single one by half of them each") {
  const ScheduledTile pair{3, 8, 3};
  REQUIRE(is_whole(pair, 8));
  for (const std::uint32_t rank : {0u, 1u}) {
    const ScheduledTile tile = tile_of_block(pair, 8, rank);
    CHECK(tile.row_tile == 6 + rank);
    CHECK(tile.first_subtile == 8);
    CHECK(tile.subtiles == 3);
  }
  REQUIRE_FALSE(is_whole(pair, 7));
  CHECK(tile_of_block(pair, 7, 0).subtiles == 2);
  CHECK(tile_of_block(pair, 7, 1).subtiles == 1);
  CHECK(tile_of_block(pair, 7, 1).row_tile == 6);
  CHECK(tile_of_block(pair, 7, 1).first_subtile == 10);
  CHECK(tile_of_block({3, 8, 1}, 7, 1).subtiles == 0);
}
