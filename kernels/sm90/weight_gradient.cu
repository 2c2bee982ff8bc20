// Hopper kernel for rows^T x rows: dW[e] (+)= A[rows of e]^T B[rows of e], where k runs over the expert's own
// rows.
//
// A tile is 128 columns of A by 256 columns of B of one expert, and a warpgroup multiplies 64 of A by all of
// B: the widest instruction reads the least shared memory for its arithmetic. Both operands come in boxes of
// 64 rows through the ragged map, which fills what lies past the expert's last row with zeros: a neighbour's
// values, NaN or not, never reach the sum. An expert without rows passes no stage and stores zeros.
//
// Tiles cost what their expert's rows cost, so experts are computed in the order of their rows, largest first
// (expert_order.hpp).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "product_arguments.hpp"
#include "sm90/expert_map.cuh"
#include "sm90/expert_order.hpp"
#include "sm90/launch_order.hpp"
#include "sm90/ragged_map.hpp"
#include "sm90/tensor_map.hpp"
#include "sm90/tile_pipeline.cuh"
#include "sm90/tile_turns.cuh"
#include "sm90/work_queue.cuh"
#include "tile_raster.hpp"

namespace dropless {
namespace sm90 {
namespace {

using Memory = TileMemory<256, 2, 4>;
constexpr int tile_m = Memory::tile_m, tile_n = Memory::tile_n;

struct WeightGradientMaps {
  CUtensorMap a, b;
  CUtensorMap dw;  // unused for float gradients and separate ones
};

/// One tile of work; expert -1: no work is left.
struct Work {
  std::int32_t expert = -1, row_begin = 0, row_count = 0, first_m = 0, first_n = 0;
};

constexpr int most_experts = 4096;
struct BlockMemory : Memory {
  std::uint16_t expert_order[most_experts];
  WorkQueue<Work> work;
};
static_assert(sizeof(Memory::a) >= most_experts * sizeof(std::int32_t));  // where the rows lie while ordered

struct WeightGradientPlan {
  const std::int32_t* row_begin;
  const std::int32_t* row_count;
  const std::int32_t experts;
  const std::uint32_t size;  // tiles of all experts
  const std::int32_t m, n;
  const TileRaster raster;  // of one expert: row tiles along m, column tiles along n
  const bool accumulate;
  const CUtensorMap* separate;     // maps of separate 16-bit gradients, or null
  float* const float_dw;           // float gradients are written from registers
  void* const* const separate_dw;  // separate gradients, or null
  const std::int64_t leading_dimension, expert_stride;
  std::uint32_t* const tile_counter;  // null: tiles are dealt in a fixed order
};

/// Writes the experts in the order of their rows. The whole block must call it, before the pipeline starts.
__device__ void order_experts(const WeightGradientPlan& plan, BlockMemory& memory) {
  auto* const rows = reinterpret_cast<std::int32_t*>(memory.a);
  for (int expert = threadIdx.x; expert < plan.experts; expert += threads_per_block)
    rows[expert] = plan.row_count[expert];
  __syncthreads();
  for (int expert = threadIdx.x; expert < plan.experts; expert += threads_per_block)
    memory.expert_order[expert_rank(rows, plan.experts, expert)] = static_cast<std::uint16_t>(expert);
  ptx::fence_proxy_async(ptx::space_shared);  // TMA writes next where the rows lay
  __syncthreads();
}

/// The tile at a place. Past the last one there is no work.
__device__ Work work_at(const WeightGradientPlan& plan, const std::uint16_t* order, std::uint32_t place) {
  if (place >= plan.size) return {};
  const std::int32_t expert = order[place / plan.raster.size()];
  const auto [row_tile, column_tile] = plan.raster.at(place % plan.raster.size());
  return {expert, plan.row_begin[expert], max(plan.row_count[expert], 0),
          static_cast<std::int32_t>(row_tile) * tile_m, static_cast<std::int32_t>(column_tile) * tile_n};
}

__device__ int row_blocks(const Work& work) { return (work.row_count + k_block - 1) / k_block; }

__device__ void load_tiles(const WeightGradientMaps& maps, const WeightGradientPlan& plan,
                           BlockMemory& memory) {
  RingPosition ring;
  WorkQueueEnd<Work> queue(memory.work);
  const TileTurns<FixedOrder::to_and_fro> turns(plan.tile_counter, plan.size);
  std::uint32_t place = turns.first();
  Work work = work_at(plan, memory.expert_order, place);
  while (work.expert >= 0) {
    queue.put(work);
    Work next;
    const int blocks = row_blocks(work), ask = max(blocks - 3, 0), look = max(blocks - 2, 0);
    const int a_boxes = min(Memory::subtiles, (plan.m - work.first_m + 63) / 64);
    const int b_boxes = min(tile_n / 64, (plan.n - work.first_n + 63) / 64);
    for (int block = 0; block < blocks; ++block) {
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      std::uint64_t& full = memory.full[ring.stage];
      expect_bytes(full, (a_boxes + b_boxes) * subtile_bytes);
      const RaggedCoordinates at = ragged_coordinates(work.row_begin, work.row_count, block * k_block);
      for (int i = 0; i < a_boxes; ++i)
        load_box(memory.a[ring.stage][i], &maps.a, {work.first_m + i * 64, at.row, at.origin, at.wrap}, full);
      for (int i = 0; i < b_boxes; ++i)
        load_box(memory.b[ring.stage] + i * subtile_bytes, &maps.b,
                 {work.first_n + i * 64, at.row, at.origin, at.wrap}, full);
      ring.advance();
      if (block == ask) place = turns.after(place);
      if (block == look) next = work_at(plan, memory.expert_order, place);
    }
    if (blocks == 0) {
      place = turns.after(place);
      next = work_at(plan, memory.expert_order, place);
    }
    work = next;
  }
  queue.put({});
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

/// Whether a consumer warpgroup's subtile lies inside the matrix, and how many parts of 64 columns it has.
__device__ bool is_active(const WeightGradientPlan& plan, const Work& work, int warpgroup) {
  return work.first_m + warpgroup * 64 < plan.m;
}
__device__ int column_parts(const WeightGradientPlan& plan, const Work& work) {
  return min(tile_n, plan.n - work.first_n + 63) / 64;
}

/// Multiplies one tile of `parts` parts of 64 columns, at most most_parts, over `rows` rows.
template <class Element, int most_parts = tile_n / 64>
__device__ __forceinline__ void multiply_tile(BlockMemory& memory, RingPosition& ring, int warpgroup,
                                              int parts, int rows, float (&d)[1][tile_n / 2]) {
  if constexpr (most_parts > 1)
    if (parts < most_parts)
      return multiply_tile<Element, most_parts - 1>(memory, ring, warpgroup, parts, rows, d);
  const int slices = (rows + 15) / 16;
  multiply_stages<Element, 64 * most_parts, 1, true, true>(memory, ring, warpgroup, slices / 4, slices % 4,
                                                           d);
}

template <class Element, bool float_output>
__device__ void multiply_tiles(const WeightGradientPlan& plan, BlockMemory& memory, int warpgroup) {
  RingPosition ring;
  WorkQueueEnd<Work> queue(memory.work);
  TileWriter<Element, false, Memory> writer(memory, warpgroup);
  for (Work work = queue.take_by_warp(); work.expert >= 0; work = queue.take_by_warp()) {
    if (!is_active(plan, work, warpgroup)) {
      skip_stages(memory, ring, row_blocks(work));
      continue;
    }
    float d[1][tile_n / 2] = {};  // what an expert without rows stores
    const int parts = column_parts(plan, work);
    multiply_tile<Element>(memory, ring, warpgroup, parts, work.row_count, d);
    if constexpr (float_output)
      store_floats(plan, work, work.first_m + warpgroup * 64, d[0]);
    else
      writer.write(d, 1, parts, plan.accumulate);
  }
}

__device__ void store_tiles(const WeightGradientMaps& maps, const WeightGradientPlan& plan,
                            BlockMemory& memory, int warpgroup) {
  WorkQueueEnd<Work> queue(memory.work);
  TileStorer<Memory> storer(memory, warpgroup, plan.accumulate);
  for (Work work = queue.take(); work.expert >= 0; work = queue.take()) {
    if (!is_active(plan, work, warpgroup)) continue;
    const ExpertMap dw = expert_map(maps.dw, plan.separate, work.expert);
    storer.store(dw.map, 1, column_parts(plan, work), [&](int, int part) {
      return BoxCoordinates<3>{{work.first_n + part * 64, work.first_m + warpgroup * 64, dw.matrix}};
    });
  }
  storer.finish();
}

template <class Element, bool float_output>
__global__ void __launch_bounds__(threads_per_block, 1)
    weight_gradient_kernel(const __grid_constant__ WeightGradientMaps maps,
                           const __grid_constant__ WeightGradientPlan plan) {
  auto& memory = tile_memory<BlockMemory>();
  if (threadIdx.x == 32 * loader_warp)
    for (const CUtensorMap* map : {&maps.a, &maps.b, &maps.dw}) prefetch_map(map);
  constexpr int store_threads = float_output ? 0 : consumer_warpgroups;
  if (threadIdx.x == 0) memory.work.initialise(4 * consumer_warpgroups + store_threads);
  initialise_barriers(memory);
  allow_next_kernel();
  wait_for_previous_kernel();
  order_experts(plan, memory);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<224>();
    multiply_tiles<Element, float_output>(plan, memory, warp / 4);
  } else {
    give_registers<56>();
    if (!elected()) return;
    if (warp == loader_warp)
      load_tiles(maps, plan, memory);
    else if (warp < first_store_warp + store_threads)
      store_tiles(maps, plan, memory, warp - first_store_warp);
  }
}

template <class Element>
auto choose_kernel(ElementType output) {
  return output == ElementType::fp32 ? weight_gradient_kernel<Element, true>
                                     : weight_gradient_kernel<Element, false>;
}

TileRaster raster_of(const ExpertGradients& dw) {
  return {static_cast<std::uint32_t>(ceil_div(dw.m, tile_m)),
          static_cast<std::uint32_t>(ceil_div(dw.n, tile_n)), 8};
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
  const bool no_map = dw.type == ElementType::fp32 || dw.matrices != nullptr;
  maps.dw =
      no_map ? maps.a
             : matrix_map(dw.data, dw.n, dw.m, dw.experts, dw.leading_dimension, dw.expert_stride, dw.type);
  const WeightGradientPlan plan{product.rows.row_begin,
                                product.rows.row_count,
                                static_cast<std::int32_t>(dw.experts),
                                static_cast<std::uint32_t>(dw.experts) * raster_of(dw).size(),
                                static_cast<std::int32_t>(dw.m),
                                static_cast<std::int32_t>(dw.n),
                                raster_of(dw),
                                product.accumulate,
                                separate_maps(dw),
                                dw.type == ElementType::fp32 ? static_cast<float*>(dw.data) : nullptr,
                                dw.matrices,
                                dw.leading_dimension,
                                dw.expert_stride,
                                product.rows.tile_counter};
  const std::uint32_t blocks = std::min(plan.size, static_cast<std::uint32_t>(product.multiprocessors));
  const auto kernel =
      type == ElementType::bf16 ? choose_kernel<__nv_bfloat16>(dw.type) : choose_kernel<__half>(dw.type);
  const std::int64_t elements = dw.experts * dw.m * dw.n + product.rows.rows_bound * (dw.m + dw.n);
  launch("weight_gradient_kernel", kernel, blocks, threads_per_block, sizeof(BlockMemory), stream,
         launch_order(elements * element_bytes(type), few_rows(product.rows.rows_bound, dw.experts)), maps,
         plan);
}

}  // namespace dropless
