// Tile lists of rows that the caller laid out: gaps, capacity buffers, negative counts.
#include "built_topology.hpp"
#include "device_stream.hpp"
#include "dropless/expert_rows.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

std::vector<std::int32_t> tiles_of(const std::vector<std::int32_t>& begin,
                                   const std::vector<std::int32_t>& count, std::int64_t rows_bound,
                                   RowTileRule rule) {
  const auto experts = static_cast<std::int64_t>(count.size());
  const DeviceBuffer<std::int32_t> device_begin(begin), device_count(count);
  const DeviceBuffer<unsigned char> memory(expert_rows_bytes(experts, rows_bound, rule));
  const DeviceStream stream;
  const ExpertRows rows = prepare_expert_rows(device_begin.data(), device_count.data(), experts, rows_bound,
                                              memory.data(), memory.size(), stream, rule);
  const std::int32_t tile_count = download(rows.tile_count, 1)[0];
  REQUIRE(tile_count >= 0);
  REQUIRE(tile_count <= rows.tile_bound);
  std::vector<std::int32_t> tiles;
  for (const RowTile& tile : download(rows.tiles, static_cast<std::size_t>(tile_count)))
    tiles.insert(tiles.end(), {tile.expert, tile.row_begin, tile.rows, tile.expert_row});
  REQUIRE(memory.guards_intact());
  return tiles;
}

}  // namespace

TEST_CASE("the tile list follows begins and counts", "[small]") {
  const RowTileRule rule = GENERATE(RowTileRule{128, 16}, RowTileRule{16, 8});
  const std::vector<std::int32_t> begin{0, 5, 10, 400, 600}, count{5, 0, 162, 128, 77};
  CHECK(tiles_of(begin, count, 677, rule) == reference_tiles(begin, count, rule));
}

TEST_CASE("counts below zero are empty experts", "[small]") {
  const std::vector<std::int32_t> begin{0, 10, 20}, count{4, -7, 3}, read_as{4, 0, 3};
  CHECK(tiles_of(begin, count, 23, {}) == reference_tiles(begin, read_as, {}));
}

TEST_CASE("a capacity buffer of 4096 experts") {
  std::vector<std::int32_t> begin, count;
  for (std::int32_t expert = 0; expert < 4096; ++expert) {
    begin.push_back(expert * 200);
    count.push_back(expert * 37 % 201);
  }
  CHECK(tiles_of(begin, count, 4096 * 200, {}) == reference_tiles(begin, count, {}));
}

TEST_CASE("counts that break the bound do not write past the list", "[small]") {
  const std::vector<std::int32_t> begin{0, 0, 0}, count{5000, 5000, 2147483647};
  CHECK(tiles_of(begin, count, 1000, {}).size() == 4 * static_cast<std::size_t>(row_tile_bound(1000, 3, {})));
}

TEST_CASE("bad expert rows are refused", "[small]") {
  const DeviceBuffer<std::int32_t> array(4);
  const DeviceBuffer<unsigned char> memory(4096);
  CHECK_THROWS_AS(prepare_expert_rows(nullptr, array.data(), 4, 10, memory.data(), 4096, nullptr), Error);
  CHECK_THROWS_AS(prepare_expert_rows(array.data(), nullptr, 4, 10, memory.data(), 4096, nullptr), Error);
  CHECK_THROWS_AS(prepare_expert_rows(array.data(), array.data(), 4, 10, memory.data(), 8, nullptr), Error);
  CHECK_THROWS_AS(prepare_expert_rows(array.data(), array.data(), 4, 10, memory.data() + 4, 4092, nullptr),
                  Error);
  CHECK_THROWS_AS(expert_rows_bytes(0, 10), Error);
  CHECK_THROWS_AS(expert_rows_bytes(4097, 10), Error);
  CHECK_THROWS_AS(expert_rows_bytes(4, std::int64_t{1} << 31), Error);
}
