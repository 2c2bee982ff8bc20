// The index arithmetic of the topology kernels: who reads which assignment, what an id means, which tile an
// entry of the list is.
#include "../../kernels/topology_plan.hpp"

#include "../../kernels/tile_list.hpp"
#include "catch.hpp"

using namespace dropless;

TEST_CASE("every assignment is read once and in order") {
  const std::int64_t experts = GENERATE(1, 3, 128, 384, 385, 1000, 4096);
  const std::int64_t assignments =
      GENERATE(0, 1, 31, 127, 128, 129, 512, 4095, 4096, 4097, 32768, 65537, 262144, 300001);
  const TopologyPlan plan = topology_plan(assignments, experts);
  REQUIRE(plan.warps >= 1);
  REQUIRE(plan.warps <= max_topology_warps);
  REQUIRE(plan.warps * experts <= max_shared_counters);
  REQUIRE(plan.chunks >= 1);
  REQUIRE(plan.chunks <= max_chunks);
  REQUIRE((plan.chunks > 1 || plan.rounds == 1));
  REQUIRE(plan.chunk_begin(plan.chunks) == assignments);

  std::int64_t next = 0;
  bool in_order = true;
  for (std::int32_t chunk = 0; chunk < plan.chunks; ++chunk)
    for (std::int32_t round = 0; round < plan.rounds; ++round)
      for (std::int32_t warp = 0; warp < plan.warps; ++warp)
        for (std::int32_t item = 0; item < ids_per_lane; ++item)
          for (std::int32_t lane = 0; lane < 32; ++lane) {
            const std::int64_t assignment = plan.assignment(chunk, round, warp, item, lane);
            if (assignment < plan.chunk_begin(chunk + 1)) in_order = in_order && assignment == next++;
          }
  REQUIRE(in_order);
  REQUIRE(next == assignments);
}

TEST_CASE("the plan stays within its limits up to 2^31 - 1 assignments") {
  for (const std::int64_t experts : {1, 128, 4096})
    for (const std::int64_t assignments : {std::int64_t{1} << 20, (std::int64_t{1} << 31) - 1}) {
      const TopologyPlan plan = topology_plan(assignments, experts);
      CHECK(plan.chunks <= max_chunks);
      CHECK(plan.chunk_begin(plan.chunks) == assignments);
      CHECK(plan.chunk_begin(plan.chunks - 1) < assignments);
      CHECK(plan.chunk_length() == plan.rounds * plan.round_length());
    }
}

TEST_CASE("small batches need one block") {
  CHECK(topology_plan(0, 128).chunks == 1);
  CHECK(topology_plan(64 * 8, 128).chunks == 1);
  CHECK(topology_plan(1024, 128).chunks == 1);
  CHECK(topology_plan(1025, 128).chunks > 1);
}

TEST_CASE("an id falls into the bin of its local expert or of the reason why it is dropped") {
  const IdRule all{8, 0, 8, nullptr};
  CHECK(bin_of(0, all) == 0);
  CHECK(bin_of(7, all) == 7);
  CHECK(bin_of(-1, all) == 8 + bin_unrouted);
  CHECK(bin_of(std::numeric_limits<std::int64_t>::min(), all) == 8 + bin_unrouted);
  CHECK(bin_of(8, all) == 8 + bin_out_of_range);
  CHECK(bin_of(std::numeric_limits<std::int64_t>::max(), all) == 8 + bin_out_of_range);

  const IdRule range{8, 2, 3, nullptr};
  CHECK(bin_of(1, range) == 3 + bin_non_local);
  CHECK(bin_of(2, range) == 0);
  CHECK(bin_of(4, range) == 2);
  CHECK(bin_of(5, range) == 3 + bin_non_local);

  const std::int32_t map[] = {1, -1, 0, 2};
  const IdRule mapped{4, 0, 2, map};
  CHECK(bin_of(0, mapped) == 1);
  CHECK(bin_of(1, mapped) == 2 + bin_non_local);
  CHECK(bin_of(2, mapped) == 0);
  CHECK(bin_of(3, mapped) == 2 + bin_out_of_range);
  CHECK(bin_of(4, mapped) == 2 + bin_out_of_range);
}

TEST_CASE("a tile counted from the first expert on finds its expert and its rows, past empty experts") {
  const RowTileRule rule = GENERATE(RowTileRule{128, 16}, RowTileRule{16, 16}, RowTileRule{192, 16});
  const std::vector<std::int32_t> rows{0, 0, 1, 130, 0, 128, 500, 0, 15, 0};
  std::vector<std::int32_t> tile_begin{0};
  std::vector<std::int64_t> row_begin{0};
  for (const std::int32_t count : rows) {
    tile_begin.push_back(tile_begin.back() + static_cast<std::int32_t>(row_tile_count(count, rule)));
    row_begin.push_back(row_begin.back() + count);
  }
  std::int32_t tile = 0;
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    for (std::int64_t index = 0; index < row_tile_count(rows[expert], rule); ++index, ++tile) {
      REQUIRE(range_of(tile_begin.data(), static_cast<std::int32_t>(rows.size()), tile) ==
              static_cast<std::int32_t>(expert));
      const RowTile found =
          row_tile(static_cast<std::int32_t>(expert), row_begin[expert], rows[expert], index, rule);
      CHECK(found.expert == static_cast<std::int32_t>(expert));
      CHECK(found.expert_row == row_tile_begin(rows[expert], index, rule));
      CHECK(found.row_begin == row_begin[expert] + found.expert_row);
      CHECK(found.expert_row + found.rows == row_tile_begin(rows[expert], index + 1, rule));
      CHECK(found.rows >= 1);
    }
  CHECK(tile == tile_begin.back());
}
