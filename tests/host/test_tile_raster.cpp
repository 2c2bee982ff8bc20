// The raster that persistent grids walk, and the coordinates of the ragged tensor map, checked exhaustively.
#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "sm90/ragged_map.hpp"
#include "sm90/tile_schedule.hpp"
#include "tile_raster.hpp"

TEST_CASE("tile raster: every pair of row and column tile has exactly one place") {
  for (std::uint32_t rows : {1u, 2u, 7u, 8u, 9u, 40u})
    for (std::uint32_t columns : {1u, 3u, 12u})
      for (std::uint32_t group : {1u, 2u, 8u, 64u}) {
        const dropless::TileRaster raster{rows, columns, group};
        std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
        for (std::uint32_t work = 0; work < raster.size(); ++work) {
          const auto [row, column] = raster.at(work);
          REQUIRE(row < rows);
          REQUIRE(column < columns);
          seen.insert({row, column});
        }
        REQUIRE(seen.size() == rows * columns);
      }
}

TEST_CASE("tile raster: the places of one group share a column tile before the next") {
  const dropless::TileRaster raster{20, 4, 8};
  for (std::uint32_t work = 0; work < 8; ++work) REQUIRE(raster.at(work).column_tile == 0);
  REQUIRE(raster.at(8).column_tile == 1);
  REQUIRE(raster.at(16 * 4).row_tile == 16);  // the last group holds 4 row tiles
  REQUIRE(raster.at(16 * 4 + 4).column_tile == 1);
}

TEST_CASE(
    "tile schedule: every subtile of every row tile is computed once, whatever the last wave is cut into") {
  for (std::uint32_t rows : {1u, 5u, 33u, 132u})
    for (std::uint32_t subtiles = 1; subtiles <= 13; ++subtiles)
      for (std::uint32_t of_a_tile : {2u, 4u})
        for (std::uint32_t blocks : {1u, 7u, 16u, 132u}) {
          const std::uint32_t tiles = (subtiles + of_a_tile - 1) / of_a_tile;
          const dropless::sm90::TileSchedule schedule({rows, tiles, 8}, subtiles, blocks, of_a_tile);
          std::vector<int> times(rows * subtiles);
          for (std::uint32_t place = 0; place < schedule.size(); ++place) {
            const auto [row_tile, first, count] = schedule.at(place);
            REQUIRE(count <= of_a_tile);
            REQUIRE(schedule.is_empty(place) == (count == 0));
            REQUIRE((count == 0 || (row_tile < rows && first + count <= subtiles)));
            for (std::uint32_t i = 0; i < count; ++i) ++times[row_tile * subtiles + first + i];
          }
          REQUIRE(!schedule.is_empty(schedule.size()));
          INFO(rows << " row tiles, " << subtiles << " subtiles, " << blocks << " blocks");
          REQUIRE(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
        }
}

TEST_CASE(
    "tile schedule: every block gets at most one piece of the last wave, and one if that is most of a wave") {
  using dropless::sm90::last_wave_cut;
  for (std::uint32_t blocks : {1u, 2u, 7u, 132u})
    for (std::uint32_t rest = 0; rest < blocks; ++rest) {
      const auto [halves, quarters] = last_wave_cut(rest, blocks);
      INFO(rest << " tiles, " << blocks << " blocks");
      REQUIRE(halves + quarters <= rest);
      const std::uint32_t pieces = rest + halves + 3 * quarters;
      REQUIRE(pieces <= blocks);
      if (2 * rest > blocks) REQUIRE(pieces == blocks);
    }
  CHECK(last_wave_cut(20, 132).quarters == 20);
  CHECK(last_wave_cut(66, 132).halves == 66);
  CHECK(last_wave_cut(88, 132).halves == 44);
}

TEST_CASE("tile schedule: whole tiles come first, then halves or quarters") {
  // 20 tiles over 12 blocks: a wave of whole ones, then four more and four in halves.
  const dropless::sm90::TileSchedule schedule({5, 4, 8}, 16, 12);
  REQUIRE(schedule.size() == 24);
  for (std::uint32_t place = 0; place < 24; ++place)
    REQUIRE(schedule.at(place).subtiles == (place < 16 ? 4 : 2));
}

TEST_CASE("ragged map: the hardware's address is the row's, and the bound is the expert's last row") {
  using namespace dropless::sm90;
  for (std::uint64_t pitch : {16ull, 128ull, 5760ull, 28672ull, (1ull << 34) - 16})
    for (std::int32_t begin : {0, 1, 127, 1 << 20, 2000000000})
      for (std::int32_t length : {1, 15, 128, 40000, 1 << 29}) {
        if (std::int64_t{begin} + length >= ragged_origins) continue;
        for (std::int32_t row : {0, 1, 63, length - 1, length, length + 64}) {
          const RaggedCoordinates at = ragged_coordinates(begin, length, row);
          REQUIRE(ragged_offset(at, pitch) == pitch * (std::uint64_t(begin) + std::uint64_t(row)));
          REQUIRE((at.row < ragged_rows) == (row < length));
          REQUIRE(at.origin < ragged_origins);
          REQUIRE(at.wrap < ragged_origins);
        }
      }
}
