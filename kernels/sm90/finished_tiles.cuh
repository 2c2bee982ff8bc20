// The frame of a Hopper product whose finished tiles are worked on before they leave: p becomes h. Consumers
// leave a tile in the staging area as a plain product, and while they multiply the next one, warps of their
// own, two for each consumer warpgroup, take it from there: in the consumers' registers the tensor cores
// would wait for that work.
//
// Otherwise as rows_by_weights.cu, with two additions:
// - Rows may be gathered: two warps copy them from their tokens, 16 bytes a lane, into the place and swizzle
//   where TMA would have put them.
// - Features may be two halves, glu's gate and up. Then a tile is 128 of each: its first two subtiles are the
//   gate's, the other two up's of the same units, so that a consumer warpgroup has both of an element.
#pragma once
#include "launch.cuh"
#include "product_arguments.hpp"
#include "sm90/row_tile_product.cuh"
#include "sm90/tile_walk.cuh"

namespace dropless::sm90 {

// Behind the consumers' warps: one issues the weights' TMA loads, one the stores, a lane for each consumer
// warpgroup, two gather; then the finishing warps.
constexpr int store_warp = loader_warp + 1, first_gathering_warp = loader_warp + 2, gathering_warps = 2;
constexpr int first_finishing_warp = first_gathering_warp + gathering_warps;
constexpr int finishing_warps = 2;  // a consumer warpgroup
constexpr int row_product_threads = 32 * (first_finishing_warp + consumer_warpgroups * finishing_warps);
constexpr int lanes_of_a_row = k_block * 2 / 16, rows_of_a_warp = 32 / lanes_of_a_row;
constexpr int rows_of_a_pass = rows_of_a_warp * gathering_warps;

struct RowProductMaps {
  CUtensorMap in[row_boxes];  // unused where rows are gathered
  CUtensorMap weights[2];     // of the halves; of one half, the same twice
};

struct RowProductPlan {
  const RowTile* tiles;
  const std::int32_t* tile_count;
  std::int32_t units;   // features of a half
  std::int32_t halves;  // 1 or 2
  std::int32_t k, k_blocks;
  std::uint32_t unit_tiles;
  const char* tokens;                     // null: rows come by TMA
  std::uint32_t token_chunks;             // of 16 bytes, from a token to the next
  const std::int32_t* row_to_assignment;  // null: assignments are rows
  std::int32_t top_k;
  bool weights_stream;
  std::uint32_t* tile_counter;  // null: tiles are dealt in a fixed order
};

/// One tile of work: rows of one expert by subtiles of 64 units, up to two of each half, or up to four; none:
/// no work is left.
struct Work {
  RowTile rows;
  std::int32_t first_unit;
  std::int32_t subtiles;
};

struct RowProductMemory : RowTileMemory {
  WorkQueue<Work> work;
};

__device__ inline TileSchedule schedule_of(const RowProductPlan& plan) {
  const TileRaster raster{static_cast<std::uint32_t>(*plan.tile_count), plan.unit_tiles,
                          row_tiles_of_a_group};
  return {raster, static_cast<std::uint32_t>(plan.units + 63) / 64, gridDim.x,
          tile_subtiles / static_cast<std::uint32_t>(plan.halves)};
}

/// Past the last place there is no work.
__device__ inline Work work_at(const RowProductPlan& plan, const TileSchedule& schedule,
                               std::uint32_t place) {
  if (place >= schedule.size()) return {};
  const ScheduledTile tile = schedule.at(place);
  return {plan.tiles[tile.row_tile], static_cast<std::int32_t>(tile.first_subtile) * 64,
          static_cast<std::int32_t>(tile.subtiles)};
}

/// How many of a consumer warpgroup's subtiles, which are the pieces of its slots, hold something of the
/// work.
__device__ inline int active_subtiles(const RowProductPlan& plan, const Work& work, int warpgroup) {
  if (plan.halves == 2) return work.subtiles > warpgroup ? 2 : 0;
  return (work.subtiles > warpgroup) + (work.subtiles > warpgroup + consumer_warpgroups);
}

/// First unit of a warpgroup's subtile.
__device__ inline int first_unit(const RowProductPlan& plan, const Work& work, int warpgroup, int subtile) {
  return work.first_unit + (plan.halves == 2 ? warpgroup : consumer_warpgroups * subtile + warpgroup) * 64;
}

/// Says that this warp's copies into a stage are there, for wgmma too. The whole warp must call it.
__device__ inline void announce_copies(RowTileMemory& memory, int stage) {
  ptx::fence_proxy_async(ptx::space_shared);
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.full[stage]);
}

/// Copies the tile's rows from their tokens: a lane always the same 16 bytes of a row's k block, of every
/// eighth row. A stage is announced when the next one's copies are under way.
__device__ inline void gather_rows(const RowProductPlan& plan, RowProductMemory& memory, int warp) {
  static_assert(rows_of_a_pass == 8);  // so that a lane's rows share one swizzle
  constexpr int passes = RowTileMemory::tile_n / rows_of_a_pass;
  const int first_row = warp * rows_of_a_warp + threadIdx.x % 32 / lanes_of_a_row;
  const int chunk = threadIdx.x % lanes_of_a_row;
  const std::uint32_t first_target = first_row * 128 + (chunk ^ first_row) * 16;
  RingPosition ring;
  int copied_stage = -1;
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take_by_warp(); work.subtiles != 0; work = queue.take_by_warp()) {
    const int passes_of_the_tile = (work.rows.rows + rows_of_a_pass - 1) / rows_of_a_pass;
    std::uint32_t row_chunk[passes];  // where the row's token begins; a pass may repeat the tile's last row
#pragma unroll
    for (int pass = 0; pass < passes; ++pass) {
      const int row = min(first_row + pass * rows_of_a_pass, work.rows.rows - 1);
      row_chunk[pass] = plan.row_to_assignment[work.rows.row_begin + row] / plan.top_k * plan.token_chunks;
    }
    for (int block = 0; block < plan.k_blocks; ++block) {
      const int k = block * k_block + chunk * 8;
      const char* source = plan.tokens + k * 2;
      asm("" : "+l"(source));  // one sum, kept: else each copy below adds it up anew
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      const std::uint32_t target = shared_address(memory.b[ring.stage]) + first_target;
      if (k < plan.k) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass)
          if (pass < passes_of_the_tile)
            copy_16_bytes(target + pass * rows_of_a_pass * 128, source + std::uint64_t{row_chunk[pass]} * 16);
      } else {
        for (int pass = 0; pass < passes_of_the_tile; ++pass)
          zero_16_bytes(target + pass * rows_of_a_pass * 128);
      }
      commit_copies();
      if (copied_stage >= 0) {
        wait_for_copies<1>();
        announce_copies(memory, copied_stage);
      }
      copied_stage = ring.stage;
      ring.advance();
    }
  }
  wait_for_copies<0>();
  if (copied_stage >= 0) announce_copies(memory, copied_stage);
}

template <bool k_by_n>
__device__ void load_tiles(const RowProductMaps& maps, const RowProductPlan& plan, RowProductMemory& memory,
                           const TileSchedule& schedule) {
  RingPosition ring;
  const auto work_there = [&](std::uint32_t place) { return work_at(plan, schedule, place); };
  const TileTurns<FixedOrder::round_robin> turns(plan.tile_counter, schedule.size());
  TileWalk walk(memory.work, turns, schedule, plan.k_blocks, work_there);
  const bool gathers = plan.tokens != nullptr;
  for (Work work = walk.first(); work.subtiles != 0; work = walk.next()) {
    const int box = smallest_box(work.rows.rows), halves = plan.halves;
    const std::uint32_t row_bytes = gathers ? 0 : box_rows(box) * k_block * 2;
    const RaggedCoordinates at = ragged_coordinates(work.rows.row_begin, work.rows.rows, 0);
    for (int block = 0; block < plan.k_blocks; ++block) {
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      expect_bytes(memory.full[ring.stage], halves * work.subtiles * subtile_bytes + row_bytes);
      const int k = block * k_block;
      if (!gathers)
        load_box(memory.b[ring.stage], &maps.in[box], {k, at.row, at.origin, at.wrap},
                 memory.full[ring.stage]);
      for (int half = 0; half < halves; ++half)
        for (int i = 0; i < work.subtiles; ++i)
          load_weights<k_by_n>(memory, ring.stage, half * 2 + i, &maps.weights[half],
                               work.first_unit + i * 64, k, work.rows.expert, plan.weights_stream);
      ring.advance();
      walk.after(block);
    }
  }
}

template <class Element, bool k_by_n>
__device__ void multiply_tiles(const RowProductPlan& plan, RowProductMemory& memory, int warpgroup) {
  RingPosition ring;
  TileWriter<Element, true, RowTileMemory> writer(memory, warpgroup);
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take_by_warp(); work.subtiles != 0; work = queue.take_by_warp()) {
    const int active = active_subtiles(plan, work, warpgroup);
    if (active == 0) {
      skip_stages(memory, ring, plan.k_blocks);
      continue;
    }
    float d[RowTileMemory::subtiles_per_warpgroup][RowTileMemory::tile_n / 2];
    multiply_row_tile<Element, k_by_n>(memory, ring, warpgroup, work.rows.rows, active, plan.k_blocks, d);
    writer.write(d, active, row_parts(work.rows.rows), false);
  }
}

/// What a thread of a warpgroup's finishing warps has of a slot: the same 16 bytes of every eighth row of
/// each piece, so that one swizzle holds for all of them.
class ThreadChunks {
 public:
  static constexpr int steps = 64 / 8, steps_at_once = 2;  // enough arithmetic in flight for one warp

  __device__ ThreadChunks(RowTileMemory& memory, int warpgroup, int slot)
      : first_(memory.output[warpgroup][slot][0] + first_row() * 128 + (chunk() ^ first_row()) * 16) {}

  __device__ static int row(int step) { return first_row() + step * 8; }
  /// Steps, a multiple of steps_at_once, that hold the first `rows` rows of a part or all of it.
  __device__ static int steps_of(int rows) { return min(steps, (rows + 15) / 16 * 2); }
  __device__ static int column() { return chunk() * 8; }
  __device__ uint4& at(int piece, int step) const {
    return *reinterpret_cast<uint4*>(first_ + piece * subtile_bytes + step * 8 * 128);
  }

 private:
  __device__ static int chunk() { return static_cast<int>(threadIdx.x) % 8; }
  __device__ static int first_row() { return static_cast<int>(threadIdx.x) % 64 / 8; }

  char* const first_;
};

/// Lets the threads of a block do their parts: finish(warpgroup) is called by the finishing warps of a
/// consumer warpgroup, store(warpgroup) by one thread for each of them, which gives slots to its consumers,
/// who begin without any. Both take the work from the queue.
template <class Element, bool k_by_n, class Finish, class Store>
__device__ void run_row_product(const RowProductMaps& maps, const RowProductPlan& plan,
                                RowProductMemory& memory, Finish finish, Store store) {
  if (threadIdx.x == 32 * loader_warp)
    for (const CUtensorMap& map : maps.weights) prefetch_map(&map);
  const bool gathers = plan.tokens != nullptr;
  constexpr int readers = consumer_warpgroups * (4 + finishing_warps + 1);
  if (threadIdx.x == 0) memory.work.initialise(readers + (gathers ? gathering_warps : 0));
  initialise_barriers(memory, gathers ? 1 + gathering_warps : 1);
  allow_next_kernel();
  wait_for_previous_kernel();
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<192>();
    multiply_tiles<Element, k_by_n>(plan, memory, warp / 4);
  } else if (warp >= first_finishing_warp) {
    give_registers<64>();
    finish((warp - first_finishing_warp) / finishing_warps);
  } else {
    give_registers<64>();
    const int lane = threadIdx.x % 32;
    if (warp == loader_warp && elected()) load_tiles<k_by_n>(maps, plan, memory, schedule_of(plan));
    if (warp == store_warp && lane < consumer_warpgroups) store(lane);
    if (warp >= first_gathering_warp && gathers) gather_rows(plan, memory, warp - first_gathering_warp);
  }
}

/// The maps of rows (null data: they are gathered) and of weights in one tensor or, for two halves, in two.
inline RowProductMaps row_product_maps(const RowsView& rows, const ExpertWeights& weights,
                                       std::int64_t rows_bound, std::int64_t halves) {
  const std::int64_t units = weights.n / halves;
  const bool split = weights.second.data != nullptr;
  RowProductMaps maps{};
  for (int i = 0; i < row_boxes && rows.data != nullptr; ++i)
    maps.in[i] = ragged_map(rows.data, weights.k, rows.leading_dimension, rows.type, box_rows(i));
  const L2Fetch fetch = weight_fetch(weights, rows_bound);
  const auto half_map = [&](const WeightTensor& tensor, std::int64_t first_feature) {
    const std::int64_t elements =
        first_feature * (weights.order == WeightOrder::k_by_n ? 1 : weights.leading_dimension);
    return weight_map(weights, static_cast<const char*>(tensor.data) + elements * element_bytes(weights.type),
                      tensor.expert_stride, weights.k, units, fetch);
  };
  maps.weights[0] = half_map(weights.first, 0);
  maps.weights[1] = halves == 1 ? maps.weights[0]
                    : split     ? half_map(weights.second, 0)
                                : half_map(weights.first, units);
  return maps;
}

/// The plan of rows that come by TMA and that no other product uses at the same time.
inline RowProductPlan row_product_plan(const ExpertRows& rows, const ExpertWeights& weights,
                                       std::int64_t halves) {
  RowProductPlan plan{};
  plan.tiles = rows.tiles;
  plan.tile_count = rows.tile_count;
  plan.units = static_cast<std::int32_t>(weights.n / halves);
  plan.halves = static_cast<std::int32_t>(halves);
  plan.k = static_cast<std::int32_t>(weights.k);
  plan.k_blocks = static_cast<std::int32_t>(ceil_div(weights.k, k_block));
  plan.unit_tiles = static_cast<std::uint32_t>(ceil_div(weights.n, RowTileMemory::tile_m));
  plan.tile_counter = rows.tile_counter;
  plan.weights_stream = product_streams(rows.rows_bound, weights.k, weights.n, weights.type);
  return plan;
}

inline unsigned row_product_blocks(const ExpertRows& rows, const ExpertWeights& weights,
                                   int multiprocessors) {
  const std::int64_t work =
      rows.tile_bound * ceil_div(weights.n, RowTileMemory::tile_m) * RowTileMemory::subtiles;
  return static_cast<unsigned>(std::min<std::int64_t>(work, multiprocessors));
}

/// Whether rows and weights are such as the frame takes.
inline bool row_product_possible(const ExpertRows& rows, const ExpertWeights& weights, std::int64_t halves) {
  const bool split = has_second(weights);
  return weights.type != ElementType::fp32 && weights.widths.d_ff == nullptr &&
         weights.n % (8 * halves) == 0 && (!split || halves == 2) &&
         tallest_tile_rows(rows.tile_rule) <= RowTileMemory::tile_n && rows.rows_bound < ragged_rows &&
         weights.k < (1 << 30) && weights.n < (1 << 30) &&
         rows.tile_bound * ceil_div(weights.n, RowTileMemory::tile_m) < (1ll << 31) &&
         weights_addressable(weights, weights.first) &&
         (!split || weights_addressable(weights, weights.second));
}

}  // namespace dropless::sm90
