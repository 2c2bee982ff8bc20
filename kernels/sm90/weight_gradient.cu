// Hopper kernel for rows^T x rows: dW[e] (+)= A[rows of e]^T B[rows of e], where k runs over the expert's own
// rows.
//
// A tile is 128 columns of A by 256 columns of B of one expert, and a warpgroup multiplies 64 of A by all of
// B: the widest instruction reads the least shared memory for its arithmetic. Both operands come in boxes of
// 64 rows through the ragged map, which fills what lies past the expert's last row with zeros: a neighbour's
// values, NaN or not, never reach the sum. An expert without rows passes no stage and stores zeros.
//
// Tiles cost what their expert's rows cost, so experts are computed in the order of their rows, largest first
// or large ones beside small ones (expert_order.hpp). Where experts have few rows, a block computes tiles in
// runs down a column of the raster, whose columns of B are loaded once (shared_columns.hpp), and where they
// have very few, the blocks fetch rows into L2 in bursts (row_bursts.hpp).
//
// k is short: at 512 rows an expert a tile's products take 8200 cycles. So whatever else a tile costs is kept
// off the threads that multiply and load. A thread of its own finds the tiles (a counter's and the caller's
// arrays' answers take a thousand cycles each), and the next one is taken from the queue under the last
// products of this one. A finished tile is staged whole: one wait and one fence for all of it.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <limits>

#include "product_arguments.hpp"
#include "sm90/expert_map.cuh"
#include "sm90/expert_order.hpp"
#include "sm90/launch_order.hpp"
#include "sm90/ragged_map.hpp"
#include "sm90/row_bursts.hpp"
#include "sm90/shared_columns.hpp"
#include "sm90/tensor_map.hpp"
#include "sm90/tile_pipeline.cuh"
#include "sm90/tile_turns.cuh"
#include "sm90/work_queue.cuh"
#include "tile_raster.hpp"

namespace dropless {
namespace sm90 {
namespace {

// Four slots for each warpgroup's part of a tile, whole; one pair of barriers for each warpgroup guards them.
using Memory = TileMemory<256, 2, 4>;
constexpr int tile_m = Memory::tile_m, tile_n = Memory::tile_n, parts_of_tile = tile_n / 64;
static_assert(Memory::staging_slots == parts_of_tile && Memory::subtiles_per_warpgroup == 1);
constexpr int scheduler_warp = first_store_warp + consumer_warpgroups;
static_assert(scheduler_warp < threads_per_block / 32);
static_assert(ColumnSlots::slots == stages);

struct WeightGradientMaps {
  CUtensorMap a, b;
  CUtensorMap dw;  // unused for float gradients and separate ones; in wide boxes where they fit
};

/// One tile of work; expert -1: no work is left.
struct Work {
  std::int16_t expert = -1;
  std::int16_t shares_columns = 0;  // not zero: with the tile before, which has the same of B
  std::int32_t row_begin = 0, row_count = 0, first_m = 0, first_n = 0;
};
constexpr int most_experts = 4096;

/// How gradients leave: floats straight from registers, or 16-bit ones by TMA in boxes of 64 columns, or of
/// 256 where these fit.
enum class Output { registers, boxes, wide_boxes };

struct BlockMemory : Memory {
  std::uint16_t expert_order[most_experts];
  std::uint32_t large_experts;
  WorkQueue<Work> work;
  std::uint64_t wanted;  // one more tile: its phases are the tiles
};
static_assert(sizeof(Memory::a) >= most_experts * sizeof(std::int32_t));  // where the rows lie while ordered

/// An operand's rows, as they are fetched ahead: of each the whole 16 bytes.
struct FetchedRows {
  const char* data;
  std::int64_t pitch;   // bytes from a row to the next
  std::uint32_t bytes;  // of a row
};

struct WeightGradientPlan {
  const std::int32_t* row_begin;
  const std::int32_t* row_count;
  const std::int32_t m, n;
  const TileRaster raster;  // of one expert: row tiles along m, column tiles along n
  const ExpertTileOrder order;
  const std::int32_t large_rows;  // an expert with more is large
  const RowBursts bursts;
  const FetchedRows a_rows, b_rows;
  const bool accumulate;
  const bool streams;              // the gradients: through L2
  const CUtensorMap* separate;     // maps of separate 16-bit gradients, or null
  float* const float_dw;           // float gradients are written from registers
  void* const* const separate_dw;  // separate gradients, or null
  const std::int64_t leading_dimension, expert_stride;
  std::uint32_t* const tile_counter;  // null: tiles are dealt in a fixed order
};

/// Writes the experts in the order of their rows, and how many are large. The whole block must call it,
/// before the pipeline starts.
__device__ void order_experts(const WeightGradientPlan& plan, BlockMemory& memory) {
  auto* const rows = reinterpret_cast<std::int32_t*>(memory.a);
  const auto experts = static_cast<std::int32_t>(plan.order.alike.experts);
  for (int expert = threadIdx.x; expert < experts; expert += threads_per_block)
    rows[expert] = plan.row_count[expert];
  if (threadIdx.x == 0) memory.large_experts = 0;
  __syncthreads();
  for (int expert = threadIdx.x; expert < experts; expert += threads_per_block) {
    const std::int32_t rank = expert_rank(rows, experts, expert);
    memory.expert_order[rank] = static_cast<std::uint16_t>(expert);
    if (rows[expert] > plan.large_rows)
      atomicMax(&memory.large_experts, static_cast<std::uint32_t>(rank) + 1);
  }
  ptx::fence_proxy_async(ptx::space_shared);  // TMA writes next where the rows lay
  __syncthreads();
}

__device__ int row_blocks(const Work& work) { return (work.row_count + k_block - 1) / k_block; }
/// Whether a consumer warpgroup's subtile lies inside the matrix, and how many parts of 64 columns it has.
__device__ bool is_active(const WeightGradientPlan& plan, const Work& work, int warpgroup) {
  return work.first_m + warpgroup * 64 < plan.m;
}
__device__ int column_parts(const WeightGradientPlan& plan, const Work& work) {
  return min(tile_n, plan.n - work.first_n + 63) / 64;
}

/// Of an expert with more rows these are fetched ahead: its tiles are bound by their products, and the
/// blocks' shares stay small.
constexpr int most_rows_fetched = stages * k_block;

/// Fetches this block's shares of the bursts.
class RowFetcher {
 public:
  __device__ RowFetcher(const WeightGradientPlan& plan, const BlockMemory& memory)
      : plan_(plan), memory_(memory) {}

  /// Some block has begun the expert at this position: fetches up to the end of the burst after its own.
  __device__ void fetch_past(std::uint32_t position) {
    for (; next_ <= plan_.bursts.burst_of(position) + 1; ++next_) fetch(next_);
  }

 private:
  __device__ void fetch(std::uint32_t burst) const {
    const BurstShare share = plan_.bursts.share(burst, blockIdx.x, gridDim.x);
    if (share.position >= plan_.order.alike.experts) return;
    const int expert = memory_.expert_order[plan_.order.rank_at(share.position)];
    const std::int64_t begin = plan_.row_begin[expert];
    const int count = min(plan_.row_count[expert], most_rows_fetched);
    for (std::int64_t row = share.first_row; row < count; row += share.row_step)
      for (const FetchedRows* rows : {&plan_.a_rows, &plan_.b_rows})
        if (rows->bytes > 0) fetch_into_l2(rows->data + (begin + row) * rows->pitch, rows->bytes);
  }

  const WeightGradientPlan& plan_;
  const BlockMemory& memory_;
  std::uint32_t next_ = 0;
};

constexpr int blocks_to_find_a_tile = 4;

/// Finds the next run of tiles when the loader is some k blocks before the end of the one before: not sooner,
/// since a block that has taken a run computes it, however late. A run is taken whole; its tiles are handed
/// on one by one, as they are wanted.
__device__ void schedule_tiles(const WeightGradientPlan& plan, BlockMemory& memory) {
  const ExpertTileOrder order{plan.order.alike, memory.large_experts};
  const std::uint32_t size = order.size();
  const TileTurns<FixedOrder::to_and_fro> turns(plan.tile_counter, size);
  WorkQueueEnd<Work> queue(memory.work);
  RowFetcher fetcher(plan, memory);
  const bool fetches = plan.bursts.experts != 0;
  const bool follows = fetches && plan.tile_counter != nullptr;  // where the other blocks are
  std::uint32_t parity = 0;
  for (std::uint32_t place = turns.first(); place < size; place = turns.after(place)) {
    const TileRun run = order.at(place);
    Work work;
    work.expert = static_cast<std::int16_t>(memory.expert_order[order.rank_at(run.position)]);
    work.row_begin = plan.row_begin[work.expert];
    work.row_count = max(plan.row_count[work.expert], 0);
    const bool can_share = can_share_columns(row_blocks(work));
    for (std::uint32_t i = 0; i < run.count; ++i) {
      const auto [row_tile, column_tile] = plan.raster.at(run.tile + i);
      const auto first_n = static_cast<std::int32_t>(column_tile) * tile_n;
      work.shares_columns = i > 0 && can_share && first_n == work.first_n;
      work.first_m = static_cast<std::int32_t>(row_tile) * tile_m;
      work.first_n = first_n;
      queue.put(work);
      if (fetches) fetcher.fetch_past(run.position);
      while (follows && !is_over(memory.wanted, parity))
        fetcher.fetch_past(order.at(turns.newest(place)).position);
      wait(memory.wanted, parity);
      parity ^= 1;
    }
  }
  queue.put({});
}

__device__ void load_tiles(const WeightGradientMaps& maps, const WeightGradientPlan& plan,
                           BlockMemory& memory) {
  RingPosition ring;
  ColumnSlots columns;
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take(); work.expert >= 0; work = queue.take()) {
    const int blocks = row_blocks(work), want = max(blocks - blocks_to_find_a_tile, 0);
    if (blocks == 0) ptx::mbarrier_arrive(&memory.wanted);
    const int a_boxes = min(Memory::subtiles, (plan.m - work.first_m + 63) / 64);
    const int b_boxes = work.shares_columns ? 0 : column_parts(plan, work);
    if (!work.shares_columns) columns.begin_run(blocks);
    int slot = columns.first();
    for (int block = 0; block < blocks; ++block) {
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      std::uint64_t& full = memory.full[ring.stage];
      expect_bytes(full, (a_boxes + b_boxes) * subtile_bytes);
      const RaggedCoordinates at = ragged_coordinates(work.row_begin, work.row_count, block * k_block);
      for (int i = 0; i < a_boxes; ++i)
        load_box(memory.a[ring.stage][i], &maps.a, {work.first_m + i * 64, at.row, at.origin, at.wrap}, full);
      for (int i = 0; i < b_boxes; ++i)
        load_box(memory.b[slot] + i * subtile_bytes, &maps.b,
                 {work.first_n + i * 64, at.row, at.origin, at.wrap}, full);
      ring.advance();
      slot = next_column_slot(slot);
      if (block == want) ptx::mbarrier_arrive(&memory.wanted);
    }
  }
}

/// Writes one subtile's floats straight from registers.
__device__ void store_floats(const WeightGradientPlan& plan, const Work& work, int first_m,
                             const float (&d)[tile_n / 2]) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  const int columns = min(tile_n, plan.n - work.first_n);
  float* const matrix = plan.separate_dw != nullptr ? static_cast<float*>(plan.separate_dw[work.expert])
                                                    : plan.float_dw + work.expert * plan.expert_stride;
#pragma unroll
  for (int j = 0; j < tile_n / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = first_m + warp * 16 + lane / 4 + i / 2 * 8, column = j * 8 + lane % 4 * 2 + i % 2;
      if (m >= plan.m || column >= columns) continue;
      float& out = matrix[m * plan.leading_dimension + work.first_n + column];
      out = plan.accumulate ? out + d[j * 4 + i] : d[j * 4 + i];
    }
}

/// Where the columns of a tile's k blocks lie.
class PlaceOfColumns {
 public:
  __device__ explicit PlaceOfColumns(int first) : slot_(first) {}
  __device__ int stage(const RingPosition&) const { return slot_; }
  __device__ void advance() { slot_ = next_column_slot(slot_); }

 private:
  int slot_;
};

/// Multiplies one tile of `parts` parts of 64 columns, at most most_parts, over `rows` rows.
template <class Element, int most_parts = parts_of_tile, class Meanwhile>
__device__ __forceinline__ void multiply_tile(BlockMemory& memory, RingPosition& ring, PlaceOfColumns columns,
                                              int warpgroup, int parts, int rows, float (&d)[1][tile_n / 2],
                                              const Meanwhile& meanwhile) {
  if constexpr (most_parts > 1)
    if (parts < most_parts)
      return multiply_tile<Element, most_parts - 1>(memory, ring, columns, warpgroup, parts, rows, d,
                                                    meanwhile);
  const int slices = (rows + 15) / 16;
  multiply_stages<Element, 64 * most_parts, 1, true, true>(memory, ring, warpgroup, slices / 4, slices % 4, d,
                                                           meanwhile, columns);
}

/// Stages a warpgroup's part of a tile. add: adds what lies there first.
template <class Element, Output output, bool add>
__device__ __forceinline__ void stage_tile(BlockMemory& memory, int warpgroup, int parts,
                                           const float (&d)[tile_n / 2]) {
  constexpr int eight_rows = 8 * 128;  // of 64 columns, in bytes
#pragma unroll
  for (int part = 0; part < parts_of_tile; ++part) {
    if (part >= parts) break;
    if constexpr (output == Output::wide_boxes)
      write_piece<Element, false, add, parts_of_tile * eight_rows>(
          memory.output[warpgroup][0][0] + part * eight_rows, d, part);
    else
      write_piece<Element, false, add>(memory.output[warpgroup][part][0], d, part);
  }
}

template <class Element, Output output>
__device__ void multiply_tiles(const WeightGradientPlan& plan, BlockMemory& memory, int warpgroup) {
  RingPosition ring;
  ColumnSlots columns;
  WorkQueueEnd<Work> queue(memory.work);
  std::uint64_t &ready = memory.ready[warpgroup][0], &staged = memory.staged[warpgroup][0];
  std::uint32_t parity = 0;
  Work work = queue.take_by_warp();
  float d[1][tile_n / 2] = {};
  while (work.expert >= 0) {
    if (!work.shares_columns) columns.begin_run(row_blocks(work));
    if (!is_active(plan, work, warpgroup)) {
      skip_stages(memory, ring, row_blocks(work));
      work = queue.take_by_warp();
      continue;
    }
    if (work.row_count == 0) clear(d);  // otherwise the first product starts from zero by itself
    Work next;
    [[maybe_unused]] bool is_ready = false;
    const int parts = column_parts(plan, work);
    multiply_tile<Element>(memory, ring, PlaceOfColumns(columns.first()), warpgroup, parts, work.row_count, d,
                           [&] {
                             next = queue.take_by_warp();
                             if constexpr (output != Output::registers) is_ready = is_over(ready, parity);
                           });
    if constexpr (output == Output::registers) {
      store_floats(plan, work, work.first_m + warpgroup * 64, d[0]);
    } else {
      if (!is_ready) wait(ready, parity);
      parity ^= 1;
      if (plan.accumulate)
        stage_tile<Element, output, true>(memory, warpgroup, parts, d[0]);
      else
        stage_tile<Element, output, false>(memory, warpgroup, parts, d[0]);
      ptx::fence_proxy_async(ptx::space_shared);
      __syncwarp();
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&staged);
    }
    work = next;
  }
}

/// Calls act(where in the staging area, coordinates of the box) for each box of a warpgroup's part of a tile.
template <Output output, class Act>
__device__ void for_each_box(const WeightGradientPlan& plan, BlockMemory& memory, const Work& work,
                             int warpgroup, std::int32_t matrix, const Act& act) {
  const int first_m = work.first_m + warpgroup * 64;
  if constexpr (output == Output::wide_boxes) {
    const std::int32_t at[5] = {0, 0, work.first_n / 64, first_m / 8, matrix};
    act(memory.output[warpgroup][0][0], at);
  } else {
    for (int part = 0; part < column_parts(plan, work); ++part) {
      const std::int32_t at[3] = {work.first_n + part * 64, first_m, matrix};
      act(memory.output[warpgroup][part][0], at);
    }
  }
}

/// Stores what a consumer warpgroup stages, and where that is added to, loads there what it is added to.
template <Output output>
__device__ void store_tiles(const WeightGradientMaps& maps, const WeightGradientPlan& plan,
                            BlockMemory& memory, int warpgroup) {
  WorkQueueEnd<Work> queue(memory.work);
  std::uint64_t &ready = memory.ready[warpgroup][0], &staged = memory.staged[warpgroup][0];
  std::uint32_t parity = 0;
  for (Work work = queue.take(); work.expert >= 0; work = queue.take()) {
    if (!is_active(plan, work, warpgroup)) continue;
    const ExpertMap dw = expert_map(maps.dw, plan.separate, work.expert);
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());  // the stores of the tile before have read theirs
    if (plan.accumulate) {
      expect_bytes(ready,
                   (output == Output::wide_boxes ? parts_of_tile : column_parts(plan, work)) * subtile_bytes);
      for_each_box<output>(plan, memory, work, warpgroup, dw.matrix,
                           [&](void* staging, const auto& at) { load_box(staging, dw.map, at, ready); });
    } else {
      ptx::mbarrier_arrive(&ready);
    }
    wait(staged, parity);
    parity ^= 1;
    for_each_box<output>(plan, memory, work, warpgroup, dw.matrix, [&](const void* staging, const auto& at) {
      plan.streams ? store_box_once(dw.map, at, staging) : store_box(dw.map, at, staging);
    });
    ptx::cp_async_bulk_commit_group();
  }
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

template <class Element, Output output>
__global__ void __launch_bounds__(threads_per_block, 1)
    weight_gradient_kernel(const __grid_constant__ WeightGradientMaps maps,
                           const __grid_constant__ WeightGradientPlan plan) {
  auto& memory = tile_memory<BlockMemory>();
  if (threadIdx.x == 32 * loader_warp)
    for (const CUtensorMap* map : {&maps.a, &maps.b, &maps.dw}) prefetch_map(map);
  constexpr int store_threads = output == Output::registers ? 0 : consumer_warpgroups;
  if (threadIdx.x == 0) {
    memory.work.initialise(4 * consumer_warpgroups + 1 + store_threads);  // one: the loader
    ptx::mbarrier_init(&memory.wanted, 1);
  }
  initialise_barriers(memory);
  allow_next_kernel();
  wait_for_previous_kernel();
  order_experts(plan, memory);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<224>();
    multiply_tiles<Element, output>(plan, memory, warp / 4);
  } else {
    give_registers<56>();
    if (!elected()) return;
    if (warp == loader_warp)
      load_tiles(maps, plan, memory);
    else if (warp < first_store_warp + store_threads)
      store_tiles<output>(maps, plan, memory, warp - first_store_warp);
    else if (warp == scheduler_warp)
      schedule_tiles(plan, memory);
  }
}

Output output_of(const ExpertGradients& dw) {
  if (dw.type == ElementType::fp32) return Output::registers;
  return fit_wide_boxes(dw.n, dw.m) ? Output::wide_boxes : Output::boxes;
}

template <class Element>
auto choose_kernel(Output output) {
  switch (output) {
    case Output::registers:
      return weight_gradient_kernel<Element, Output::registers>;
    case Output::boxes:
      return weight_gradient_kernel<Element, Output::boxes>;
    default:
      return weight_gradient_kernel<Element, Output::wide_boxes>;
  }
}

/// Of one expert. Groups of 16 row tiles read least: with 132 blocks at work, 16 x 8 tiles. On an H200 they
/// gain up to 2 % where m has as many (4096 x 28672), but 12 tiles in one group lose 2 to 10 %.
TileRaster raster_of(const ExpertGradients& dw) {
  const auto row_tiles = static_cast<std::uint32_t>(ceil_div(dw.m, tile_m));
  return {row_tiles, static_cast<std::uint32_t>(ceil_div(dw.n, tile_n)), row_tiles >= 16 ? 16u : 8u};
}

/// Whether large experts are computed beside small ones: where both's rows stay in L2. On an H200 at its
/// power limit that gains 2 to 3 % where an expert's rows, of both operands, are up to 6 MB, and loses 0 to 1
/// % where power does not limit; it gains 1 % and loses 2 % at 6 to 10 MB, and gains nothing at more.
bool takes_experts_in_pairs(const RowsTransposedByRows& product) {
  const std::int64_t elements = product.rows.rows_bound * (product.dw.m + product.dw.n);
  return elements * element_bytes(product.a.type) <= 10'000'000 * product.dw.experts;
}

/// Whether blocks compute tiles in runs. These pay for experts that share columns (up to 192 rows), but also
/// where only the smaller experts do: on an H200 1 to 5 % at a mean of 200 to 250 rows. At 300 they lose 0 to
/// 3 %.
bool takes_runs(const RowsTransposedByRows& product) {
  return product.rows.rows_bound <= 256 * product.dw.experts;
}

ExpertTileOrder order_of(const RowsTransposedByRows& product) {
  const TileRaster raster = raster_of(product.dw);
  const auto experts = static_cast<std::uint32_t>(product.dw.experts), tiles = raster.size();
  // Two single tiles for each block, so that no run ends alone.
  const auto single = static_cast<std::uint32_t>(ceil_div(2 * product.multiprocessors, tiles));
  const std::uint32_t in_runs = (experts - std::min(single, experts)) / 2 * 2;
  const std::uint32_t run = takes_runs(product) ? run_length(std::min(raster.row_tiles, raster.group)) : 1;
  return {{experts, tiles, run, in_runs, takes_experts_in_pairs(product)}};
}

/// On an H200 bursts gain up to 8 % at 2 to 64 rows an expert, 1 to 4 % at 80 and 96, and nothing at 128.
RowBursts bursts_of(const RowsTransposedByRows& product, std::uint32_t blocks) {
  const std::int64_t rows = product.rows.rows_bound, experts = product.dw.experts;
  if (rows > 96 * experts) return {0};
  const std::int64_t elements = ceil_div(rows * (product.dw.m + product.dw.n), experts);
  return row_bursts(elements * element_bytes(product.a.type), experts, blocks);
}

/// Where tiles come in runs, experts with more than one and a half times the mean rows are large, and their
/// order is their own. On an H200 with 128 rows an expert that gains 3 to 5 % on skewed routing. Not with
/// bursts, which follow the order of pairs: with them it loses 0 to 4 %.
std::int32_t large_rows(const RowsTransposedByRows& product, RowBursts bursts) {
  const std::int64_t experts = std::max<std::int64_t>(product.dw.experts, 1);
  const bool apart = takes_runs(product) && bursts.experts == 0;
  return apart ? static_cast<std::int32_t>(3 * product.rows.rows_bound / (2 * experts))
               : std::numeric_limits<std::int32_t>::max();
}

FetchedRows fetched_rows(const RowsView& rows, std::int64_t columns) {
  const std::int64_t bytes = element_bytes(rows.type);
  return {static_cast<const char*>(rows.data), rows.leading_dimension * bytes,
          static_cast<std::uint32_t>(std::min<std::int64_t>(columns * bytes, most_bytes_fetched) / 16 * 16)};
}

/// Whether L2 should give up the gradients first: they pass it once, the rows several times. On an H200 that
/// gains 2 to 4 % at 30 to 64 rows an expert, 1 % at 128, nothing at 180, and loses 0.5 % at more.
bool gradients_stream(const RowsTransposedByRows& product) {
  return product.rows.rows_bound <= 192 * product.dw.experts;
}

}  // namespace
}  // namespace sm90

bool sm90_can_run(const RowsTransposedByRows& product) {
  const ExpertGradients& dw = product.dw;
  const bool separate = dw.matrices != nullptr;
  const bool output_addressable =
      dw.type == ElementType::fp32 ||
      (dw.n % 8 == 0 && (separate ? dw.maps.maps != nullptr
                                  : sm90::addressable(dw.data, dw.leading_dimension, dw.type) &&
                                        sm90::addressable(dw.data, dw.expert_stride, dw.type)));
  const std::int64_t tiles = ceil_div(dw.m, sm90::tile_m) * ceil_div(dw.n, sm90::tile_n);
  return product.a.type != ElementType::fp32 && output_addressable && dw.experts <= sm90::most_experts &&
         dw.m < (1 << 30) && dw.n < (1 << 30) && product.rows.rows_bound < sm90::ragged_rows &&
         tiles < (1ll << 31) / std::max<std::int64_t>(dw.experts, 1) &&
         sm90::addressable(product.a.data, product.a.leading_dimension, product.a.type) &&
         sm90::addressable(product.b.data, product.b.leading_dimension, product.b.type);
}

void launch_sm90(const RowsTransposedByRows& product, Stream stream) {
  using namespace sm90;
  const ExpertGradients& dw = product.dw;
  const ElementType type = product.a.type;
  WeightGradientMaps maps;
  maps.a = ragged_map(product.a.data, dw.m, product.a.leading_dimension, type, k_block);
  maps.b = ragged_map(product.b.data, dw.n, product.b.leading_dimension, type, k_block);
  const Output output = output_of(dw);
  const bool wide_boxes = output == Output::wide_boxes;
  maps.dw = maps.a;
  if (dw.type != ElementType::fp32 && dw.matrices == nullptr)
    maps.dw =
        wide_boxes
            ? wide_box_map(dw.data, dw.n, dw.m, dw.experts, dw.leading_dimension, dw.expert_stride, dw.type)
            : matrix_map(dw.data, dw.n, dw.m, dw.experts, dw.leading_dimension, dw.expert_stride, dw.type);
  const ExpertTileOrder order = order_of(product);
  const std::uint32_t blocks = std::min(order.size(), static_cast<std::uint32_t>(product.multiprocessors));
  const RowBursts bursts = bursts_of(product, blocks);
  const WeightGradientPlan plan{product.rows.row_begin,
                                product.rows.row_count,
                                static_cast<std::int32_t>(dw.m),
                                static_cast<std::int32_t>(dw.n),
                                raster_of(dw),
                                order,
                                large_rows(product, bursts),
                                bursts,
                                fetched_rows(product.a, dw.m),
                                fetched_rows(product.b, dw.n),
                                product.accumulate,
                                gradients_stream(product),
                                separate_maps(dw, wide_boxes ? wide_map : fetch_256_map),
                                dw.type == ElementType::fp32 ? static_cast<float*>(dw.data) : nullptr,
                                dw.matrices,
                                dw.leading_dimension,
                                dw.expert_stride,
                                product.rows.tile_counter};
  const auto kernel =
      type == ElementType::bf16 ? choose_kernel<__nv_bfloat16>(output) : choose_kernel<__half>(output);
  const std::int64_t elements = dw.experts * dw.m * dw.n + product.rows.rows_bound * (dw.m + dw.n);
  launch("weight_gradient_kernel", kernel, blocks, threads_per_block, sizeof(BlockMemory), stream,
         launch_order(elements * element_bytes(type), few_rows(product.rows.rows_bound, dw.experts)), maps,
         plan);
}

}  // namespace dropless
