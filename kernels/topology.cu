// The packed topology on the GPU: a stable counting sort of the assignments by expert, with the tile list.
//
// Few ids: one block does everything in one launch. Else three launches:
//   count_chunks   each block counts the experts of its chunk of assignments,
//   scan_chunks    each count becomes the rows that earlier chunks have of that expert,
//   place_rows     each block ranks its ids in order and writes both orders; all blocks share the tile list.
// Atomics only count; no order depends on them. place_rows ranks its first ids before it waits for the
// counts.
#include "dropless/topology.hpp"

#include "argument_checks.hpp"
#include "block_scan.cuh"
#include "current_device.hpp"
#include "device_memory_layout.hpp"
#include "launch.cuh"
#include "tile_list.hpp"
#include "tile_rule_check.hpp"
#include "topology_plan.hpp"
#include "topology_view.hpp"

namespace dropless {
namespace {

constexpr int count_threads = 512;
constexpr int scan_columns = 32, scan_groups = 32;  // bins and groups of chunks of a scanning block
static_assert(max_chunks % scan_groups == 0 && scan_columns == 32 && scan_groups == 32);

/// The metadata, writable.
struct TopologyArrays {
  std::int32_t* rows_per_expert;
  std::int32_t* row_offsets;
  std::int32_t* row_to_assignment;
  std::int32_t* assignment_to_row;
  RowTile* tiles;
  std::int32_t* tile_count;
  std::uint32_t* tile_counter;
  TopologyStatus* status;
  RowTileRule tile_rule;
};

__device__ void set_dropped(TopologyStatus* status, int dropped_bin, std::int32_t count) {
  if (dropped_bin == bin_out_of_range) status->out_of_range = count;
  if (dropped_bin == bin_unrouted) status->unrouted = count;
  if (dropped_bin == bin_non_local) status->non_local = count;
}

/// chunk_counts[chunk, bin] = ids of the chunk in that bin.
template <class Id>
__global__ void __launch_bounds__(count_threads)
    count_chunks(const Id* __restrict__ ids, IdRule rule, TopologyPlan plan, std::int32_t* chunk_counts) {
  extern __shared__ std::int32_t counts[];
  allow_next_kernel();
  for (int bin = threadIdx.x; bin < plan.bins(); bin += count_threads) counts[bin] = 0;
  __syncthreads();
  const std::int64_t end = plan.chunk_begin(blockIdx.x + 1);
  for (std::int64_t first = plan.chunk_begin(blockIdx.x) + threadIdx.x; first < end;
       first += ids_per_lane * count_threads) {
    std::int32_t bins[ids_per_lane];
#pragma unroll
    for (int i = 0; i < ids_per_lane; ++i) {
      const std::int64_t assignment = first + i * count_threads;
      bins[i] = assignment < end ? bin_of(ids[assignment], rule) : -1;
    }
#pragma unroll
    for (int i = 0; i < ids_per_lane; ++i)
      if (bins[i] >= 0) atomicAdd(&counts[bins[i]], 1);
  }
  __syncthreads();
  std::int32_t* const out = chunk_counts + std::int64_t{blockIdx.x} * plan.bins();
  for (int bin = threadIdx.x; bin < plan.bins(); bin += count_threads) out[bin] = counts[bin];
}

/// chunk_counts[chunk, bin] becomes the sum over earlier chunks; the sums over all chunks are the rows per
/// expert and the dropped ids of the status. A block takes 32 bins; thread (x, y) bin x and the y-th group of
/// chunks.
__global__ void __launch_bounds__(scan_columns* scan_groups)
    scan_chunks(TopologyPlan plan, std::int32_t* chunk_counts, std::int32_t* rows_per_expert,
                TopologyStatus* status) {
  __shared__ std::int32_t group_sums[scan_groups][scan_columns + 1];
  allow_next_kernel();
  const int column = threadIdx.x % scan_columns, group = threadIdx.x / scan_columns;
  const int first_bin = blockIdx.x * scan_columns, bin = first_bin + column;
  const int chunks_per_group = (plan.chunks + scan_groups - 1) / scan_groups;
  const int first_chunk = group * chunks_per_group;
  const int chunks = bin < plan.bins() ? max(0, min(chunks_per_group, plan.chunks - first_chunk)) : 0;
  std::int32_t* const counts = chunk_counts + std::int64_t{first_chunk} * plan.bins() + bin;
  wait_for_previous_kernel();

  std::int32_t own[max_chunks / scan_groups];
  std::int32_t sum = 0;
#pragma unroll
  for (int i = 0; i < max_chunks / scan_groups; ++i) {
    own[i] = i < chunks ? __ldcg(counts + std::int64_t{i} * plan.bins()) : 0;
    sum += own[i];
  }
  group_sums[group][column] = sum;
  __syncthreads();
  {  // Warp w scans the groups of bin w.
    const int lane = threadIdx.x % 32, scanned = threadIdx.x / 32;
    const std::int32_t value = group_sums[lane][scanned];
    const std::int32_t inclusive = warp_inclusive_scan(value);
    group_sums[lane][scanned] = inclusive - value;
    const int scanned_bin = first_bin + scanned;
    if (lane == 31 && scanned_bin < plan.experts) rows_per_expert[scanned_bin] = inclusive;
    if (lane == 31 && scanned_bin >= plan.experts) set_dropped(status, scanned_bin - plan.experts, inclusive);
  }
  __syncthreads();
  std::int32_t before = group_sums[group][column];
#pragma unroll
  for (int i = 0; i < max_chunks / scan_groups; ++i) {
    if (i < chunks) counts[std::int64_t{i} * plan.bins()] = before;
    before += own[i];
  }
}

/// What a lane knows of its ids of one round.
struct RankedIds {
  std::int32_t bin[ids_per_lane];
  std::int32_t rank[ids_per_lane];  ///< ids of the same expert before it in the warp's run
};

/// Ranks a warp's run of ids and leaves in warp_counts[experts] how many each expert has. With `dropped` the
/// dropped ids are counted there too.
template <class Id>
__device__ RankedIds rank_ids(const Id* __restrict__ ids, const IdRule& rule, const TopologyPlan& plan,
                              int round, std::int32_t* warp_counts, std::int32_t* dropped) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t end = plan.chunk_begin(blockIdx.x + 1);
  RankedIds ranked;
#pragma unroll
  for (int i = 0; i < ids_per_lane; ++i) {
    const std::int64_t assignment = plan.assignment(blockIdx.x, round, warp, i, lane);
    ranked.bin[i] = assignment < end ? bin_of(ids[assignment], rule) : plan.bins();
  }
  for (int expert = lane; expert < plan.experts; expert += 32) warp_counts[expert] = 0;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ids_per_lane; ++i) {
    const int bin = ranked.bin[i];
    const unsigned peers = __match_any_sync(full_warp, bin);
    const int leader = __ffs(peers) - 1;
    std::int32_t before = 0;
    if (lane == leader) {
      if (bin < plan.experts) {
        before = warp_counts[bin];
        warp_counts[bin] = before + __popc(peers);
      } else if (dropped != nullptr && bin < plan.bins()) {
        atomicAdd(&dropped[bin - plan.experts], __popc(peers));
      }
    }
    before = __shfl_sync(full_warp, before, leader);
    ranked.rank[i] = before + __popc(peers & ((1u << lane) - 1));
    __syncwarp();
  }
  return ranked;
}

/// Sums, over the warps of a block, of the counts that rank_ids left for one expert.
__device__ std::int32_t sum_over_warps(const std::int32_t* warp_counts, int expert,
                                       const TopologyPlan& plan) {
  std::int32_t sum = 0;
#pragma unroll 4
  for (int warp = 0; warp < plan.warps; ++warp) sum += warp_counts[warp * plan.experts + expert];
  return sum;
}

/// Turns the warps' counts of each expert into the first row of each warp's run, and moves next_row past
/// them.
__device__ void rows_of_warps(std::int32_t* warp_counts, std::int32_t* next_row, const TopologyPlan& plan) {
  constexpr int batch = 4;  // loads in flight
  for (int expert = threadIdx.x; expert < plan.experts; expert += blockDim.x) {
    std::int32_t row = next_row[expert];
    for (int first = 0; first < plan.warps; first += batch) {
      std::int32_t counts[batch];
#pragma unroll
      for (int i = 0; i < batch; ++i)
        counts[i] = first + i < plan.warps ? warp_counts[(first + i) * plan.experts + expert] : 0;
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        if (first + i < plan.warps) warp_counts[(first + i) * plan.experts + expert] = row;
        row += counts[i];
      }
    }
    next_row[expert] = row;
  }
}

/// Shared memory of place_rows, in int32.
constexpr std::size_t place_shared_bytes(const TopologyPlan& plan) {
  const auto experts = static_cast<std::size_t>(plan.experts), warps = static_cast<std::size_t>(plan.warps);
  const auto order_words = static_cast<std::size_t>(tile_order_words(plan.experts));
  return sizeof(std::int32_t) * (experts + 1 + order_words + experts + warps * experts);
}

/// Writes both orders of the block's chunk and this block's share of the tile list; block 0 also the small
/// arrays. `alone`: the only block, which counts for itself and writes everything.
template <class Id, bool alone>
__global__ void __launch_bounds__(32 * max_topology_warps, 1)
    place_rows(const Id* __restrict__ ids, IdRule rule, TopologyPlan plan, const std::int32_t* chunk_prefixes,
               TopologyArrays out) {
  extern __shared__ std::int32_t shared[];
  std::int32_t* const row_begin = shared;                                      // [experts + 1]
  std::int32_t* const tile_begin = row_begin + plan.experts + 1;               // of the TileOrder
  std::int32_t* const next_row = tile_begin + tile_order_words(plan.experts);  // [experts]
  std::int32_t* const warp_counts = next_row + plan.experts;                   // [warps, experts]
  auto* const odd_experts = reinterpret_cast<std::uint32_t*>(tile_begin + plan.experts + 1);
  __shared__ std::uint64_t warp_totals[32];
  __shared__ std::int32_t dropped[dropped_bins];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  std::int32_t* const own_counts = warp_counts + warp * plan.experts;

  if (alone) {
    if (threadIdx.x < dropped_bins) dropped[threadIdx.x] = 0;
    __syncthreads();
  }
  RankedIds ranked = rank_ids(ids, rule, plan, 0, own_counts, alone ? dropped : nullptr);
  if (alone)
    __syncthreads();
  else
    wait_for_previous_kernel();

  // Rows and tiles before each expert, as one 64-bit sum: tiles above, rows below; each is below 2^31.
  std::uint64_t before_these = 0;
  for (int first = 0; first < plan.experts; first += blockDim.x) {
    const int expert = first + static_cast<int>(threadIdx.x);
    std::int32_t rows = 0, earlier_chunks = 0;
    if (expert < plan.experts) {
      if (alone) {
        rows = sum_over_warps(warp_counts, expert, plan);
        out.rows_per_expert[expert] = rows;
      } else {
        rows = __ldcg(out.rows_per_expert + expert);
        earlier_chunks = __ldcg(chunk_prefixes + std::int64_t{blockIdx.x} * plan.bins() + expert);
      }
    }
    const auto tiles = static_cast<std::uint64_t>(row_tile_count(rows, out.tile_rule));
    const std::uint64_t own = tiles << 32 | static_cast<std::uint32_t>(rows);
    const unsigned odd = __ballot_sync(full_warp, tiles % 2 != 0);
    const BlockScan<std::uint64_t> scan = block_inclusive_scan(own, warp_totals);
    const std::uint64_t before = before_these + scan.inclusive - own;
    if (expert < plan.experts) {
      row_begin[expert] = static_cast<std::int32_t>(before & 0xffffffffu);
      tile_begin[expert] = static_cast<std::int32_t>(before >> 32);
      if (lane == 0) odd_experts[expert / 32] = odd;
      next_row[expert] = row_begin[expert] + earlier_chunks;
      if (blockIdx.x == 0) out.row_offsets[expert] = row_begin[expert];
    }
    before_these += scan.total;
  }
  if (threadIdx.x == 0) {
    row_begin[plan.experts] = static_cast<std::int32_t>(before_these & 0xffffffffu);
    tile_begin[plan.experts] = static_cast<std::int32_t>(before_these >> 32);
    if (blockIdx.x == 0) {
      out.row_offsets[plan.experts] = row_begin[plan.experts];
      *out.tile_count = tile_begin[plan.experts];
      *out.tile_counter = 0;
      out.status->useful_rows = row_begin[plan.experts];
      if (alone)
        for (int bin = 0; bin < dropped_bins; ++bin) set_dropped(out.status, bin, dropped[bin]);
    }
  }

  for (int round = 0;; ++round) {
    __syncthreads();
    rows_of_warps(warp_counts, next_row, plan);
    __syncthreads();
    const std::int64_t end = plan.chunk_begin(blockIdx.x + 1);
#pragma unroll
    for (int i = 0; i < ids_per_lane; ++i) {
      const std::int64_t assignment = plan.assignment(blockIdx.x, round, warp, i, lane);
      if (assignment >= end) continue;
      const bool kept = ranked.bin[i] < plan.experts;
      const std::int32_t row = kept ? own_counts[ranked.bin[i]] + ranked.rank[i] : -1;
      out.assignment_to_row[assignment] = row;
      if (kept) out.row_to_assignment[row] = static_cast<std::int32_t>(assignment);
    }
    if (round + 1 == plan.rounds) break;
    __syncwarp();  // own_counts is read above and cleared by the same warp
    ranked = rank_ids(ids, rule, plan, round + 1, own_counts, nullptr);
  }

  const TileOrder order{tile_begin, odd_experts, plan.experts};
  for (std::int64_t entry = blockIdx.x + std::int64_t{threadIdx.x} * gridDim.x;
       entry < tile_begin[plan.experts]; entry += std::int64_t{gridDim.x} * blockDim.x) {
    const auto [expert, index] = order.at(static_cast<std::int32_t>(entry));
    out.tiles[entry] =
        row_tile(expert, row_begin[expert], row_begin[expert + 1] - row_begin[expert], index, out.tile_rule);
  }
}

void check_bounds(const TopologyBounds& bounds) {
  require_at_least(bounds.tokens, 0, "bounds.tokens");
  require_between(bounds.top_k, 1, 128, "bounds.top_k");
  require_between(bounds.experts, 1, 4096, "bounds.experts");
  checked_int32(checked_product(bounds.tokens, bounds.top_k, "bounds.tokens * top_k"),
                "bounds.tokens * top_k");
  check_tile_rule(bounds.tile_rule);
}

std::int64_t assignments(const TopologyBounds& bounds) { return bounds.tokens * bounds.top_k; }

std::int64_t tile_bound(const TopologyBounds& bounds) {
  return row_tile_bound(assignments(bounds), bounds.experts, bounds.tile_rule);
}

TopologyArrays lay_out(DeviceMemoryLayout& layout, const TopologyBounds& bounds) {
  TopologyArrays arrays;
  arrays.rows_per_expert = layout.array<std::int32_t>(bounds.experts);
  arrays.row_offsets = layout.array<std::int32_t>(bounds.experts + 1);
  arrays.row_to_assignment = layout.array<std::int32_t>(assignments(bounds));
  arrays.assignment_to_row = layout.array<std::int32_t>(assignments(bounds));
  arrays.tiles = layout.array<RowTile>(tile_bound(bounds));
  arrays.tile_count = layout.array<std::int32_t>(2);
  arrays.tile_counter = reinterpret_cast<std::uint32_t*>(arrays.tile_count + 1);
  arrays.status = layout.array<TopologyStatus>(1);
  arrays.tile_rule = bounds.tile_rule;
  return arrays;
}

/// The counts of every chunk; nothing where one block does everything.
std::int32_t* lay_out_workspace(DeviceMemoryLayout& layout, const TopologyPlan& plan) {
  return plan.chunks == 1 ? nullptr : layout.array<std::int32_t>(std::int64_t{plan.chunks} * plan.bins());
}

IdRule id_rule(const RouterIds& ids, const TopologyBounds& bounds) {
  const std::int64_t global = ids.global_experts == 0 ? bounds.experts : ids.global_experts;
  require_memory(ids.data, assignments(bounds) > 0, ids.is_int64 ? 8 : 4, "ids.data");
  require_between(global, 1, int32_max, "ids.global_experts");
  require_memory(ids.expert_map, false, sizeof(std::int32_t), "ids.expert_map");
  if (ids.expert_map == nullptr)
    require(ids.first_expert >= 0 && ids.first_expert <= global - bounds.experts, "ids.first_expert",
            std::to_string(ids.first_expert),
            "local experts within the " + std::to_string(global) + " global ones");
  return {global, ids.first_expert, static_cast<std::int32_t>(bounds.experts), ids.expert_map};
}

template <class Id>
void launch_build(const Id* ids, const IdRule& rule, const TopologyPlan& plan, std::int32_t* chunk_counts,
                  const TopologyArrays& out, Stream stream) {
  const auto threads = static_cast<unsigned>(32 * plan.warps), chunks = static_cast<unsigned>(plan.chunks);
  const std::size_t shared = place_shared_bytes(plan);
  if (plan.chunks == 1) {
    launch("place_rows", place_rows<Id, true>, 1, threads, shared, stream, LaunchOrder::after_previous, ids,
           rule, plan, nullptr, out);
    return;
  }
  const auto bins = static_cast<unsigned>(plan.bins());
  launch("count_chunks", count_chunks<Id>, chunks, count_threads, bins * sizeof(std::int32_t), stream,
         LaunchOrder::after_previous, ids, rule, plan, chunk_counts);
  launch("scan_chunks", scan_chunks, (bins + scan_columns - 1) / scan_columns, scan_columns * scan_groups, 0,
         stream, LaunchOrder::overlap_previous, plan, chunk_counts, out.rows_per_expert, out.status);
  launch("place_rows", place_rows<Id, false>, chunks, threads, shared, stream, LaunchOrder::overlap_previous,
         ids, rule, plan, chunk_counts, out);
}

}  // namespace

ExpertRows Topology::expert_rows() const {
  ExpertRows rows;
  rows.experts = bounds.experts;
  rows.rows_bound = assignments;
  rows.row_begin = row_offsets;
  rows.row_count = rows_per_expert;
  rows.tiles = tiles;
  rows.tile_count = tile_count;
  rows.tile_counter = tile_counter;
  rows.tile_bound = tile_bound(bounds);
  rows.tile_rule = bounds.tile_rule;
  return rows;
}

RowOrder Topology::row_order() const { return {bounds.tokens, bounds.top_k, assignment_to_row}; }

std::size_t topology_metadata_bytes(const TopologyBounds& bounds) {
  check_bounds(bounds);
  DeviceMemoryLayout layout;
  lay_out(layout, bounds);
  return layout.used();
}

std::size_t topology_workspace_bytes(const TopologyBounds& bounds) {
  check_bounds(bounds);
  DeviceMemoryLayout layout;
  lay_out_workspace(layout, topology_plan(assignments(bounds), bounds.experts));
  return layout.used();
}

Topology topology_view(const TopologyBounds& bounds, void* metadata, std::size_t metadata_bytes) {
  DeviceMemoryLayout layout(metadata, metadata_bytes, topology_metadata_bytes(bounds), "metadata");
  const TopologyArrays arrays = lay_out(layout, bounds);
  Topology topology;
  topology.bounds = bounds;
  topology.assignments = assignments(bounds);
  topology.rows_per_expert = arrays.rows_per_expert;
  topology.row_offsets = arrays.row_offsets;
  topology.row_to_assignment = arrays.row_to_assignment;
  topology.assignment_to_row = arrays.assignment_to_row;
  topology.tiles = arrays.tiles;
  topology.tile_count = arrays.tile_count;
  topology.tile_counter = arrays.tile_counter;
  topology.status = arrays.status;
  return topology;
}

Topology build_topology(const RouterIds& ids, const TopologyBounds& bounds, void* metadata,
                        std::size_t metadata_bytes, void* workspace, std::size_t workspace_bytes,
                        Stream stream) {
  check_bounds(bounds);
  const IdRule rule = id_rule(ids, bounds);
  DeviceMemoryLayout metadata_layout(metadata, metadata_bytes, topology_metadata_bytes(bounds), "metadata");
  DeviceMemoryLayout workspace_layout(workspace, workspace_bytes, topology_workspace_bytes(bounds),
                                      "workspace");
  const TopologyPlan plan = topology_plan(assignments(bounds), bounds.experts);
  const TopologyArrays arrays = lay_out(metadata_layout, bounds);
  std::int32_t* const chunk_counts = lay_out_workspace(workspace_layout, plan);
  check_current_device(metadata, "metadata");
  if (ids.is_int64)
    launch_build(static_cast<const std::int64_t*>(ids.data), rule, plan, chunk_counts, arrays, stream);
  else
    launch_build(static_cast<const std::int32_t*>(ids.data), rule, plan, chunk_counts, arrays, stream);
  return topology_view(bounds, metadata, metadata_bytes);
}

TopologyStatus check(const Topology& topology, Stream stream) {
  TopologyStatus status;
  DROPLESS_CUDA_CHECK(
      cudaMemcpyAsync(&status, topology.status, sizeof status, cudaMemcpyDeviceToHost, stream));
  DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream));
  if (status.out_of_range != 0)
    throw Error("expert ids", std::to_string(status.out_of_range) + " ids out of range",
                "ids below the number of experts");
  return status;
}

}  // namespace dropless
