// A topology built on the GPU in guarded memory, and the host's answer to compare it with.
#pragma once
#include <vector>

#include "catch.hpp"
#include "device_buffer.hpp"
#include "dropless/row_layout.hpp"
#include "dropless/topology.hpp"
#include "tile_order.hpp"

namespace dropless::test {

/// Ids on the device, with the memory a build of them needs. `Id` is int32 or int64.
template <class Id>
class TopologyFixture {
 public:
  TopologyFixture(const std::vector<Id>& expert_ids, const TopologyBounds& topology_bounds)
      : bounds(topology_bounds),
        ids(expert_ids),
        metadata(topology_metadata_bytes(topology_bounds)),
        workspace(topology_workspace_bytes(topology_bounds)) {
    router.data = ids.data();
    router.is_int64 = sizeof(Id) == 8;
  }
  Topology build(Stream stream) const {
    return build_topology(router, bounds, metadata.data(), metadata.size(), workspace.data(),
                          workspace.size(), stream);
  }
  bool guards_intact() const {
    return ids.guards_intact() && metadata.guards_intact() && workspace.guards_intact();
  }

  TopologyBounds bounds;
  DeviceBuffer<Id> ids;
  DeviceBuffer<unsigned char> metadata, workspace;
  RouterIds router;
};

/// Every array of a topology on the host, cut to what is valid.
struct TopologyArraysOnHost {
  std::vector<std::int32_t> rows_per_expert, row_offsets, row_to_assignment, assignment_to_row;
  std::vector<std::int32_t> tiles;  ///< four numbers a tile, as in RowTile
  std::vector<std::int32_t> status;

  bool operator==(const TopologyArraysOnHost& other) const {
    return rows_per_expert == other.rows_per_expert && row_offsets == other.row_offsets &&
           row_to_assignment == other.row_to_assignment && assignment_to_row == other.assignment_to_row &&
           tiles == other.tiles && status == other.status;
  }
};

inline TopologyArraysOnHost download(const Topology& topology) {
  TopologyArraysOnHost arrays;
  const auto experts = static_cast<std::size_t>(topology.bounds.experts);
  const auto assignments = static_cast<std::size_t>(topology.assignments);
  const TopologyStatus status = download(topology.status, 1)[0];
  const auto tile_count = static_cast<std::size_t>(download(topology.tile_count, 1)[0]);
  REQUIRE(status.useful_rows >= 0);
  REQUIRE(static_cast<std::size_t>(status.useful_rows) <= assignments);
  REQUIRE(static_cast<std::int64_t>(tile_count) <= topology.expert_rows().tile_bound);
  arrays.rows_per_expert = download(topology.rows_per_expert, experts);
  arrays.row_offsets = download(topology.row_offsets, experts + 1);
  arrays.row_to_assignment =
      download(topology.row_to_assignment, static_cast<std::size_t>(status.useful_rows));
  arrays.assignment_to_row = download(topology.assignment_to_row, assignments);
  for (const RowTile& tile : download(topology.tiles, tile_count))
    arrays.tiles.insert(arrays.tiles.end(), {tile.expert, tile.row_begin, tile.rows, tile.expert_row});
  arrays.status = {status.out_of_range, status.unrouted, status.non_local, status.useful_rows};
  return arrays;
}

/// The tile list of experts with these begins and counts (none below zero), four numbers a tile.
template <class Index>
std::vector<std::int32_t> reference_tiles(const std::vector<Index>& row_begin,
                                          const std::vector<Index>& row_count, RowTileRule rule) {
  std::vector<std::int32_t> tiles_per_expert, tiles;
  for (const Index count : row_count)
    tiles_per_expert.push_back(static_cast<std::int32_t>(row_tile_count(count, rule)));
  for (const auto& [expert, tile] : listed_tiles(tiles_per_expert)) {
    const auto e = static_cast<std::size_t>(expert);
    const std::int64_t begin = row_tile_begin(row_count[e], tile, rule);
    const std::int64_t end = row_tile_begin(row_count[e], tile + 1, rule);
    for (const std::int64_t value : {std::int64_t{expert}, row_begin[e] + begin, end - begin, begin})
      tiles.push_back(static_cast<std::int32_t>(value));
  }
  return tiles;
}

/// The same arrays from the host builder, after a plain walk over the ids that decides which are local.
template <class Id>
TopologyArraysOnHost reference_topology(const std::vector<Id>& ids, const TopologyBounds& bounds,
                                        std::int64_t global_experts = 0, std::int64_t first_expert = 0,
                                        const std::vector<std::int32_t>& expert_map = {}) {
  if (global_experts == 0) global_experts = bounds.experts;
  std::int32_t out_of_range = 0, unrouted = 0, non_local = 0;
  std::vector<std::int64_t> local(ids.size(), -1);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t id = ids[i];
    if (id < 0) {
      ++unrouted;
    } else if (id >= global_experts) {
      ++out_of_range;
    } else {
      const std::int64_t expert =
          expert_map.empty() ? id - first_expert : expert_map[static_cast<std::size_t>(id)];
      if (expert >= 0 && expert < bounds.experts)
        local[i] = expert;
      else
        ++non_local;
    }
  }
  const RowLayout layout = row_layout_from_ids(ArrayView<const std::int64_t>(local), bounds.experts);
  const auto narrow = [](const std::vector<std::int64_t>& values) {
    std::vector<std::int32_t> narrowed;
    for (const std::int64_t value : values) narrowed.push_back(static_cast<std::int32_t>(value));
    return narrowed;
  };
  TopologyArraysOnHost arrays;
  arrays.rows_per_expert = narrow(layout.rows_per_expert);
  arrays.row_offsets = narrow(layout.row_offsets);
  arrays.row_to_assignment = narrow(layout.row_to_assignment);
  arrays.assignment_to_row = narrow(layout.assignment_to_row);
  arrays.tiles =
      reference_tiles(std::vector<std::int64_t>(layout.row_offsets.begin(), layout.row_offsets.end() - 1),
                      layout.rows_per_expert, bounds.tile_rule);
  arrays.status = {out_of_range, unrouted, non_local, static_cast<std::int32_t>(layout.useful_rows)};
  return arrays;
}

inline void require_equal(const TopologyArraysOnHost& built, const TopologyArraysOnHost& expected) {
  REQUIRE(built.status == expected.status);
  REQUIRE(built.rows_per_expert == expected.rows_per_expert);
  REQUIRE(built.row_offsets == expected.row_offsets);
  const bool same_row_order = built.row_to_assignment == expected.row_to_assignment;
  const bool same_assignment_order = built.assignment_to_row == expected.assignment_to_row;
  const bool same_tiles = built.tiles == expected.tiles;
  REQUIRE(same_row_order);
  REQUIRE(same_assignment_order);
  REQUIRE(same_tiles);
}

}  // namespace dropless::test
