// Hopper kernel for rows x weights (sdd and dsd, forward and input gradient): out[r, :] = in[r, :] W[expert
// of r].
//
// Output features are wgmma's M and rows its N: a tile is 256 features by up to 160 rows of one expert, and N
// is the tile's rows rounded up to 16, so that a short tile costs what its rows cost. A persistent grid walks
// the device tile list; one thread loads by TMA, two warpgroups multiply, and finished tiles leave through
// ragged TMA stores. Every tile shape adds k in the same order, so a row's bits do not depend on the tile it
// fell into.
//
// Where experts have two tiles (pair_schedule.hpp) blocks work in pairs, clusters of two: two row tiles of
// one expert by the same features, each block loading half of the weights for both. Both then pass the same
// stages for each place of the schedule, so that what one writes into the other's stage is what that needs.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "product_arguments.hpp"
#include "sm90/block_pair.cuh"
#include "sm90/expert_map.cuh"
#include "sm90/launch_order.hpp"
#include "sm90/row_tile_product.cuh"
#include "sm90/tile_walk.cuh"

namespace dropless {
namespace sm90 {
namespace {

/// One tile of work: rows of one expert by up to four subtiles of features. Without rows: no work is left.
struct Work {
  /// Whether this block loads weights for the other one of its pair too, and that one for this.
  static constexpr bool shares_weights = false;
  RowTile rows;
  std::int32_t first_feature;
  std::int32_t boxes;  // subtiles of 64 features, up to 4; none where a pair's other block has them all
};
struct WorkInPair : Work {
  bool shares_weights;
};

struct Memory : RowTileMemory {
  WorkQueue<Work> work;
};
struct MemoryInPair : Memory {
  PairMemory pair;
};
template <bool paired>
using BlockMemory = std::conditional_t<paired, MemoryInPair, Memory>;
constexpr int work_readers = 4 * consumer_warpgroups + consumer_warpgroups;  // consumer warps, store threads

struct RowsByWeightsMaps {
  CUtensorMap in[row_boxes];
  CUtensorMap weights, second_weights;  // unused for separate tensors
  CUtensorMap out;
};

struct RowsByWeightsPlan {
  const RowTile* tiles;
  const std::int32_t* tile_count;
  const CUtensorMap *separate, *separate_second;  // maps of separate tensors, or null
  const std::int32_t features;                    // n
  const std::int32_t k_blocks;
  const std::int32_t split_feature;  // first feature of the second tensor; n where there is none
  const std::int32_t split_k;        // first k of the second tensor; past k where there is none
  const std::uint32_t feature_tiles;
  const std::uint32_t raster_group;
  const bool accumulate;
  const bool streams;
  std::uint32_t* const tile_counter;  // null: tiles are dealt in a fixed order
};

__device__ TileSchedule schedule_of(const RowsByWeightsPlan& plan, std::uint32_t blocks_together) {
  return schedule_together(blocks_together, static_cast<std::uint32_t>(*plan.tile_count), plan.feature_tiles,
                           plan.raster_group, static_cast<std::uint32_t>(plan.features + 63) / 64, gridDim.x);
}

__device__ Work work_of(const RowsByWeightsPlan& plan, const ScheduledTile& tile) {
  return {plan.tiles[tile.row_tile], static_cast<std::int32_t>(tile.first_subtile) * 64,
          static_cast<std::int32_t>(tile.subtiles)};
}

/// Past the last place there is no work.
__device__ Work work_at(const RowsByWeightsPlan& plan, const TileSchedule& schedule, std::uint32_t place) {
  if (place >= schedule.size()) return {};
  return work_of(plan, schedule.at(place));
}

/// This block's part of a pair's work.
__device__ WorkInPair work_in_pair_at(const RowsByWeightsPlan& plan, const TileSchedule& schedule,
                                      std::uint32_t place) {
  if (place >= schedule.size()) return {};
  const ScheduledTile pair = schedule.at(place);
  const auto row_tiles = static_cast<std::uint32_t>(*plan.tile_count);
  const RowTile* const first = plan.tiles + first_of_pair(pair);
  return {work_of(plan, tile_of_block(pair, row_tiles, cluster_rank())),
          is_whole(pair, row_tiles) && first[0].expert == first[1].expert};
}

template <bool k_by_n, class Walk, class Other>
__device__ __forceinline__ void load_tiles(const RowsByWeightsMaps& maps, const RowsByWeightsPlan& plan,
                                           Memory& memory, Walk walk, Other other_block) {
  RingPosition ring;
  for (auto work = walk.first(); work.rows.rows != 0; work = walk.next()) {
    const int box = smallest_box(work.rows.rows);
    const std::uint32_t bytes = work.boxes * subtile_bytes + box_rows(box) * k_block * 2;
    const RaggedCoordinates at = ragged_coordinates(work.rows.row_begin, work.rows.rows, 0);
    const ExpertMap weights = expert_map(maps.weights, plan.separate, work.rows.expert);
    const ExpertMap second_weights = expert_map(maps.second_weights, plan.separate_second, work.rows.expert);
    const int first_box = work.shares_weights ? static_cast<int>(cluster_rank()) : 0;
    const int box_step = work.shares_weights ? blocks_of_a_pair : 1;
    for (int block = 0; block < plan.k_blocks; ++block) {
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      expect_bytes(memory.full[ring.stage], bytes);
      if (work.shares_weights) other_block.tell(ring.stage);
      const int k = block * k_block;
      load_box(memory.b[ring.stage], &maps.in[box], {k, at.row, at.origin, at.wrap}, memory.full[ring.stage]);
      if (work.shares_weights) other_block.wait(ring.stage);
      const bool second_k = k >= plan.split_k;
      const int weight_k = second_k ? k - plan.split_k : k;
      for (int i = first_box; i < work.boxes; i += box_step) {
        const int feature = work.first_feature + i * 64;
        const bool second_feature = feature >= plan.split_feature;
        const int weight_feature = second_feature ? feature - plan.split_feature : feature;
        const auto [map, matrix] = second_k || second_feature ? second_weights : weights;
        load_weights<k_by_n>(memory, ring.stage, i, map, weight_feature, weight_k, matrix, plan.streams,
                             work.shares_weights);
      }
      ring.advance();
      walk.after(block);
    }
  }
}

/// Of a block that works alone.
template <bool k_by_n>
__device__ void load_tiles(const RowsByWeightsMaps& maps, const RowsByWeightsPlan& plan, Memory& memory) {
  const TileSchedule schedule = schedule_of(plan, 1);
  const TileTurns<FixedOrder::round_robin> turns(plan.tile_counter, schedule.size());
  const auto work_there = [&](std::uint32_t place) { return work_at(plan, schedule, place); };
  load_tiles<k_by_n>(maps, plan, memory, TileWalk(memory.work, turns, schedule, plan.k_blocks, work_there),
                     NoOtherBlock{});
}

/// Of a block of a pair.
template <bool k_by_n>
__device__ void load_tiles(const RowsByWeightsMaps& maps, const RowsByWeightsPlan& plan,
                           MemoryInPair& memory) {
  const TileSchedule schedule = schedule_of(plan, blocks_of_a_pair);
  const PairTurns turns(memory.pair, plan.tile_counter, schedule.size());
  const auto work_there = [&](std::uint32_t place) { return work_in_pair_at(plan, schedule, place); };
  load_tiles<k_by_n>(maps, plan, memory, TileWalk(memory.work, turns, schedule, plan.k_blocks, work_there),
                     OtherBlock(memory.pair));
}

/// How many of a consumer warpgroup's subtiles hold features of the work.
__device__ int active_subtiles(const Work& work, int warpgroup) {
  return (work.boxes > warpgroup) + (work.boxes > warpgroup + consumer_warpgroups);
}

template <class Element, bool k_by_n>
__device__ void multiply_tiles(const RowsByWeightsPlan& plan, Memory& memory, int warpgroup) {
  RingPosition ring;
  TileWriter<Element, true, Memory> writer(memory, warpgroup);
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take_by_warp(); work.rows.rows != 0; work = queue.take_by_warp()) {
    const int active = active_subtiles(work, warpgroup);
    if (active == 0) {
      skip_stages(memory, ring, plan.k_blocks);
      continue;
    }
    float d[Memory::subtiles_per_warpgroup][Memory::tile_n / 2];
    multiply_row_tile<Element, k_by_n>(memory, ring, warpgroup, work.rows.rows, active, plan.k_blocks, d);
    writer.write(d, active, row_parts(work.rows.rows), plan.accumulate);
  }
}

__device__ void store_tiles(const RowsByWeightsMaps& maps, const RowsByWeightsPlan& plan, Memory& memory,
                            int warpgroup) {
  TileStorer<Memory> storer(memory, warpgroup, plan.accumulate, plan.streams);
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take(); work.rows.rows != 0; work = queue.take()) {
    const int active = active_subtiles(work, warpgroup);
    if (active == 0) continue;
    storer.store(&maps.out, active, row_parts(work.rows.rows), [&](int subtile, int part) {
      const RaggedCoordinates rows = ragged_coordinates(work.rows.row_begin, work.rows.rows, part * 64);
      const int feature = work.first_feature + (consumer_warpgroups * subtile + warpgroup) * 64;
      return BoxCoordinates<4>{{feature, rows.row, rows.origin, rows.wrap}};
    });
  }
  storer.finish();
}

template <class Element, bool k_by_n, bool paired>
__global__ void __launch_bounds__(threads_per_block, 1)
    rows_by_weights_kernel(const __grid_constant__ RowsByWeightsMaps maps,
                           const __grid_constant__ RowsByWeightsPlan plan) {
  auto& memory = tile_memory<BlockMemory<paired>>();
  if (threadIdx.x == 32 * loader_warp) {
    for (const CUtensorMap& map : maps.in) prefetch_map(&map);
    prefetch_map(&maps.weights);
    prefetch_map(&maps.out);
  }
  if (threadIdx.x == 0) memory.work.initialise(work_readers);
  if constexpr (paired)
    if (threadIdx.x == 0) memory.pair.initialise();
  initialise_barriers(memory);
  if constexpr (paired) wait_for_cluster();
  allow_next_kernel();
  wait_for_previous_kernel();
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<224>();
    multiply_tiles<Element, k_by_n>(plan, memory, warp / 4);
  } else {
    give_registers<56>();
    if (!elected()) return;
    if (warp == loader_warp)
      load_tiles<k_by_n>(maps, plan, memory);
    else if (warp < first_store_warp + consumer_warpgroups)
      store_tiles(maps, plan, memory, warp - first_store_warp);
  }
  // The other block may still write to this one's shared memory, or arrive there.
  if constexpr (paired) wait_for_cluster();
}

template <class Element, bool paired>
auto choose_kernel(WeightOrder order) {
  return order == WeightOrder::k_by_n ? rows_by_weights_kernel<Element, true, paired>
                                      : rows_by_weights_kernel<Element, false, paired>;
}
template <bool paired>
auto choose_kernel(ElementType type, WeightOrder order) {
  return type == ElementType::bf16 ? choose_kernel<__nv_bfloat16, paired>(order)
                                   : choose_kernel<__half, paired>(order);
}

bool reachable(const ExpertWeights& weights, const WeightTensor& tensor) {
  return tensor.matrices != nullptr ? tensor.maps.maps != nullptr : weights_addressable(weights, tensor);
}

}  // namespace
}  // namespace sm90

bool sm90_can_run(const RowsByWeights& product) {
  const ExpertWeights& weights = product.weights;
  const bool split = has_second(weights);
  const std::int64_t split_extent = (product.split_n ? weights.n : weights.k) / 2;
  const std::int64_t feature_tiles = ceil_div(weights.n, sm90::Memory::tile_m);
  // A TMA store writes whole 16-byte chunks, past the last column where n does not end on one.
  return weights.type != ElementType::fp32 && weights.widths.d_ff == nullptr && weights.n % 8 == 0 &&
         tallest_tile_rows(product.rows.tile_rule) <= sm90::Memory::tile_n &&
         product.rows.rows_bound < sm90::ragged_rows && weights.k < (1 << 30) && weights.n < (1 << 30) &&
         product.rows.tile_bound * feature_tiles < (1ll << 31) &&
         sm90::addressable(product.in.data, product.in.leading_dimension, weights.type) &&
         sm90::addressable(product.out.data, product.out.leading_dimension, weights.type) &&
         sm90::reachable(weights, weights.first) &&
         (!split || (split_extent % 64 == 0 && sm90::reachable(weights, weights.second)));
}

void launch_sm90(const RowsByWeights& product, Stream stream) {
  using namespace sm90;
  const ExpertWeights& weights = product.weights;
  const bool split = has_second(weights);
  const std::int64_t tensor_n = split && product.split_n ? weights.n / 2 : weights.n;
  const std::int64_t tensor_k = split && !product.split_n ? weights.k / 2 : weights.k;
  RowsByWeightsMaps maps;
  for (int i = 0; i < row_boxes; ++i)
    maps.in[i] =
        ragged_map(product.in.data, weights.k, product.in.leading_dimension, weights.type, box_rows(i));
  maps.out = ragged_map(product.out.data, weights.n, product.out.leading_dimension, weights.type, 64);
  const L2Fetch fetch = weight_fetch(weights, product.rows.rows_bound);
  const int map_kind = fetch == L2Fetch::bytes_128 ? fetch_128_map : fetch_256_map;
  const auto stack_map = [&](const WeightTensor& tensor) {
    return tensor.matrices != nullptr
               ? maps.out
               : weight_map(weights, tensor.data, tensor.expert_stride, tensor_k, tensor_n, fetch);
  };
  maps.weights = stack_map(weights.first);
  maps.second_weights = split ? stack_map(weights.second) : maps.weights;

  const auto n = static_cast<std::int32_t>(weights.n), k = static_cast<std::int32_t>(weights.k);
  const auto feature_tiles = static_cast<std::uint32_t>(ceil_div(n, Memory::tile_m));
  const RowsByWeightsPlan plan{product.rows.tiles,
                               product.rows.tile_count,
                               separate_maps(weights.first, map_kind),
                               separate_maps(weights.second, map_kind),
                               n,
                               static_cast<std::int32_t>(ceil_div(k, k_block)),
                               split && product.split_n ? n / 2 : n,
                               split && !product.split_n ? k / 2 : k,
                               feature_tiles,
                               row_tiles_of_a_group,
                               product.accumulate,
                               product_streams(product.rows.rows_bound, k, n, weights.type),
                               product.rows.tile_counter};
  const bool paired = takes_pairs(product.rows.rows_bound, weights.experts, k, product.multiprocessors);
  const unsigned together = paired ? blocks_of_a_pair : 1;
  const std::int64_t work = product.rows.tile_bound * feature_tiles * Memory::subtiles;
  const auto blocks =
      together * static_cast<unsigned>(std::min<std::int64_t>(work, product.multiprocessors / together));
  const auto kernel = paired ? choose_kernel<true>(weights.type, weights.order)
                             : choose_kernel<false>(weights.type, weights.order);
  const std::size_t shared_bytes = paired ? sizeof(MemoryInPair) : sizeof(Memory);
  const std::int64_t elements =
      weights.experts * weights.k * weights.n + product.rows.rows_bound * (weights.k + weights.n);
  launch("rows_by_weights_kernel", kernel, Grid(blocks, together), threads_per_block, shared_bytes, stream,
         launch_order(elements * element_bytes(weights.type),
                      few_rows(product.rows.rows_bound, weights.experts)),
         maps, plan);
}

}  // namespace dropless
