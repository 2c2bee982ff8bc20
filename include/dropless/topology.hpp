// The topology of one batch, built on the GPU: router ids in device memory become the packed row layout and
// the tile list of the products, without the host ever waiting. The device twin of row_layout.hpp: the same
// numbers bit for bit. (device_block_topology.hpp builds the blocked topology over it.)
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/expert_rows.hpp"
#include "dropless/row_order.hpp"
#include "dropless/row_tiles.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// The host-known bounds of a batch; everything that sizes memory. A captured graph may be replayed with any
/// ids of the same bounds.
struct TopologyBounds {
  std::int64_t tokens = 0;   ///< tokens * top_k < 2^31
  std::int64_t top_k = 1;    ///< 1..128
  std::int64_t experts = 0;  ///< experts held here (local), 1..4096
  RowTileRule tile_rule{};
};

/// Router output: expert ids [tokens, top_k], token-major, int32 or int64, in device memory.
/// An id below zero is unrouted: skipped and counted. An id >= global_experts is counted in the status and
/// skipped. Local ids are those that `expert_map` (device, [global_experts]) gives an index in [0, experts),
/// or, where that is null, those in the range [first_expert, first_expert + experts). The others are
/// non-local: skipped and counted apart. A map entry is a local index or below zero; one >= experts counts as
/// out of range.
struct RouterIds {
  const void* data = nullptr;
  bool is_int64 = false;
  std::int64_t global_experts = 0;  ///< 0: the same as experts
  std::int64_t first_expert = 0;
  const std::int32_t* expert_map = nullptr;
};

/// Counters of one build, in device memory. Out-of-range ids are the caller's fault; the other two are
/// ordinary.
struct TopologyStatus {
  std::int32_t out_of_range = 0;
  std::int32_t unrouted = 0;
  std::int32_t non_local = 0;
  std::int32_t useful_rows = 0;
};

/// A built topology: device pointers into the caller's metadata memory.
struct Topology {
  TopologyBounds bounds;
  std::int64_t assignments = 0;                     ///< tokens * top_k
  const std::int32_t* rows_per_expert = nullptr;    ///< [experts]
  const std::int32_t* row_offsets = nullptr;        ///< [experts + 1]
  const std::int32_t* row_to_assignment = nullptr;  ///< [assignments]; the first useful_rows are valid
  const std::int32_t* assignment_to_row = nullptr;  ///< [assignments]; -1 where the assignment is not a row
  const RowTile* tiles = nullptr;                   ///< [tile_bound]
  const std::int32_t* tile_count = nullptr;         ///< [1]
  std::uint32_t* tile_counter = nullptr;            ///< [1], zero; the products' (ExpertRows)
  const TopologyStatus* status = nullptr;           ///< [1]

  /// The packed rows as the products take them.
  ExpertRows expert_rows() const;
  /// The way of each assignment to its row, as the permutations take it.
  RowOrder row_order() const;
};

/// Device bytes of the metadata that a topology keeps, and of the scratch that dies in the builder.
std::size_t topology_metadata_bytes(const TopologyBounds& bounds);
std::size_t topology_workspace_bytes(const TopologyBounds& bounds);

/// Builds the packed topology on `stream` into the caller's memory (16-byte aligned). At most three launches;
/// no allocation, no synchronisation, capturable. Throws Error before any launch for bad bounds, short
/// memory, or metadata in the memory of a GPU other than the current one.
Topology build_topology(const RouterIds& ids, const TopologyBounds& bounds, void* metadata,
                        std::size_t metadata_bytes, void* workspace, std::size_t workspace_bytes,
                        Stream stream);

/// Waits for `stream` and gives the counters; throws Error where ids were out of range. Beside the
/// load-time prepare_separate_matrices, the one call that synchronises.
TopologyStatus check(const Topology& topology, Stream stream);

}  // namespace dropless
