// Hopper kernel for the first half of an expert layer: h[r, :] = activation(scale[r] * x[token of r, :] W[e]
// + bias[e]), for inference without the pre-activation in memory, and where it gathers without a gathered
// copy of the tokens.
//
// The frame is that of rows_by_weights.cu. What is different:
// - Where rows are gathered, two warps copy them from their tokens, 16 bytes a lane, into the place and
// swizzle
//   where TMA would have put them.
// - For glu a tile is 128 units: its first two subtiles are the gate's, the other two up's of the same units,
//   so that each consumer thread holds gate and up of the same element.
// - Values are rounded where single calls round them, kept or not: fused or composed, for training or for
//   inference, forward gives the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "activation.cuh"
#include "fused_up.hpp"
#include "sm90/launch_order.hpp"
#include "sm90/row_tile_product.cuh"

namespace dropless {
namespace sm90 {
namespace {

using Memory = RowTileMemory;

// Behind the consumers' warps: one issues the weights' TMA loads, one the stores of both warpgroups, a lane
// for each, and two gather.
constexpr int store_warp = loader_warp + 1, first_gathering_warp = loader_warp + 2, gathering_warps = 2;
constexpr int lanes_of_a_row = k_block * 2 / 16, rows_of_a_warp = 32 / lanes_of_a_row;
constexpr int rows_of_a_pass = rows_of_a_warp * gathering_warps;

struct FusedUpMaps {
  CUtensorMap in[row_boxes];      // unused where rows are gathered
  CUtensorMap weights[2];         // gate and up; linear2: one, twice
  CUtensorMap pre_activation[2];  // the same parts of p; unused where p is not kept
  CUtensorMap h;
};

struct FusedUpPlan {
  const RowTile* tiles;
  const std::int32_t* tile_count;
  const std::int32_t units;  // d_ff
  const std::int32_t k, k_blocks;
  const std::uint32_t unit_tiles;
  const bool glu;
  const char* tokens;                     // null: rows come by TMA
  const std::uint32_t token_chunks;       // of 16 bytes, from a token to the next
  const std::int32_t* row_to_assignment;  // null: assignments are rows
  const std::int32_t top_k;
  const float* scales;  // null: ones
  const void* bias;     // null: none
  const bool keeps_pre_activation;
  const Activation activation;
};

/// One tile of work: rows of one expert by subtiles of 64 units, up to two for glu and four otherwise.
struct Work {
  RowTile rows;
  std::int32_t first_unit;
  std::int32_t subtiles;
};

__device__ TileSchedule schedule_of(const FusedUpPlan& plan) {
  const TileRaster raster{static_cast<std::uint32_t>(*plan.tile_count), plan.unit_tiles,
                          row_tiles_of_a_group};
  return {raster, static_cast<std::uint32_t>(plan.units + 63) / 64, gridDim.x,
          plan.glu ? tile_subtiles / 2 : tile_subtiles};
}

__device__ Work work_at(const FusedUpPlan& plan, const TileSchedule& schedule, std::uint32_t place) {
  const ScheduledTile tile = schedule.at(place);
  return {plan.tiles[tile.row_tile], static_cast<std::int32_t>(tile.first_subtile) * 64,
          static_cast<std::int32_t>(tile.subtiles)};
}

/// Says that this warp's copies into a stage are there, for wgmma too. The whole warp must call it.
__device__ void announce_copies(Memory& memory, int stage) {
  ptx::fence_proxy_async(ptx::space_shared);
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.full[stage]);
}

/// Copies the tile's rows from their tokens: a lane always the same 16 bytes of a row's k block, of every
/// eighth row. A stage is announced when the next one's copies are under way.
__device__ void gather_rows(const FusedUpPlan& plan, Memory& memory, const TileSchedule& schedule, int warp) {
  static_assert(rows_of_a_pass == 8);  // so that a lane's rows share one swizzle
  constexpr int passes = Memory::tile_n / rows_of_a_pass;
  const int first_row = warp * rows_of_a_warp + threadIdx.x % 32 / lanes_of_a_row;
  const int chunk = threadIdx.x % lanes_of_a_row;
  const std::uint32_t first_target = first_row * 128 + (chunk ^ first_row) * 16;
  RingPosition ring;
  int copied_stage = -1;
  for (std::uint32_t place = blockIdx.x; place < schedule.size(); place += gridDim.x) {
    const Work work = work_at(plan, schedule, place);
    if (work.subtiles == 0) continue;
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
__device__ void load_tiles(const FusedUpMaps& maps, const FusedUpPlan& plan, Memory& memory,
                           const TileSchedule& schedule) {
  RingPosition ring;
  PeerStages peer;
  const bool gathers = plan.tokens != nullptr;
  for (std::uint32_t place = blockIdx.x; place < schedule.size(); place += gridDim.x) {
    const Work work = work_at(plan, schedule, place);
    if (work.subtiles == 0) continue;
    const bool shares = shares_weights(plan.tiles, schedule, place);
    const WeightSharing sharing = weight_sharing(work.rows.rows, shares);
    const int box = smallest_box(work.rows.rows), halves = plan.glu ? 2 : 1;
    const std::uint32_t row_bytes = gathers ? 0 : box_rows(box) * k_block * 2;
    const RaggedCoordinates at = ragged_coordinates(work.rows.row_begin, work.rows.rows, 0);
    for (int block = 0; block < plan.k_blocks; ++block) {
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      expect_bytes(memory.full[ring.stage], halves * work.subtiles * subtile_bytes + row_bytes);
      if (shares) peer.announce(memory, ring.stage);
      const int k = block * k_block;
      if (!gathers)
        load_box(memory.b[ring.stage], &maps.in[box], {k, at.row, at.origin, at.wrap},
                 memory.full[ring.stage]);
      if (shares) peer.wait(memory, ring.stage);
      for (int half = 0; half < halves; ++half)
        for (int i = 0; i < work.subtiles; ++i)
          load_weights<k_by_n>(memory, ring.stage, half * 2 + i, &maps.weights[half],
                               work.first_unit + i * 64, k, work.rows.expert, sharing);
      ring.advance();
    }
  }
}

/// How many of a consumer warpgroup's subtiles hold something of the work, and how many of them h has.
__device__ int active_subtiles(const FusedUpPlan& plan, const Work& work, int warpgroup) {
  if (plan.glu) return work.subtiles > warpgroup ? 2 : 0;
  return (work.subtiles > warpgroup) + (work.subtiles > warpgroup + consumer_warpgroups);
}
__device__ int h_subtiles(const FusedUpPlan& plan, int active) { return plan.glu ? active / 2 : active; }

/// Column of p, within its gate or up half for glu, of a warpgroup's subtile.
__device__ int first_unit(const FusedUpPlan& plan, const Work& work, int warpgroup, int subtile) {
  return work.first_unit + (plan.glu ? warpgroup : consumer_warpgroups * subtile + warpgroup) * 64;
}

/// The bias of this thread's two rows of each subtile.
struct ThreadBias {
  float value[subtiles_per_warpgroup][2];
};

template <class Element>
__device__ ThreadBias thread_bias(const FusedUpPlan& plan, const Work& work, int warpgroup) {
  ThreadBias bias{};
  if (plan.bias == nullptr) return bias;
  const int columns = plan.glu ? 2 * plan.units : plan.units;
  const Element* const row =
      static_cast<const Element*>(plan.bias) + static_cast<std::int64_t>(work.rows.expert) * columns;
#pragma unroll
  for (int subtile = 0; subtile < subtiles_per_warpgroup; ++subtile)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int unit = first_unit(plan, work, warpgroup, subtile) + threadIdx.x % 128 / 32 * 16 +
                       threadIdx.x % 32 / 4 + i * 8;
      if (unit < plan.units)
        bias.value[subtile][i] = static_cast<float>(row[(plan.glu ? subtile * plan.units : 0) + unit]);
    }
  return bias;
}

/// The routing weight of row `row` of the tile; past the tile's rows anything.
__device__ float row_scale(const FusedUpPlan& plan, const RowTile& rows, int row) {
  if (row >= rows.rows) return 0.0f;
  const std::int32_t place = rows.row_begin + row;
  return plan.scales[plan.row_to_assignment == nullptr ? place : plan.row_to_assignment[place]];
}

/// Turns one part of the products into p, rounded to the element type after each step, as single calls round.
template <class Element, int size>
__device__ __forceinline__ void pre_activate(const FusedUpPlan& plan, const Work& work,
                                             const ThreadBias& bias, int part,
                                             float (&d)[subtiles_per_warpgroup][size]) {
  const bool plain = plan.scales == nullptr && plan.bias == nullptr;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (part * 32 + j * 4 >= size) break;
    float scale[2] = {1.0f, 1.0f};
    if (plan.scales != nullptr)
      for (int i = 0; i < 2; ++i)
        scale[i] = row_scale(plan, work.rows, part * 64 + j * 8 + threadIdx.x % 4 * 2 + i);
#pragma unroll
    for (int subtile = 0; subtile < subtiles_per_warpgroup; ++subtile)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float* const p = &d[subtile][part * 32 + j * 4 + i * 2];
        float2 rounded = unpack<Element>(pack<Element>(p[0], p[1]));
        if (!plain)
          rounded = unpack<Element>(pack<Element>(fmaf(scale[0], rounded.x, bias.value[subtile][i]),
                                                  fmaf(scale[1], rounded.y, bias.value[subtile][i])));
        p[0] = rounded.x, p[1] = rounded.y;
      }
  }
}

template <bool glu, class Function, int size>
__device__ __forceinline__ void activate(const GluRule& rule, Function function, int part,
                                         float (&d)[subtiles_per_warpgroup][size]) {
#pragma unroll
  for (int i = 0; i < 32; ++i) {
    if (part * 32 + i >= size) break;
    const int at = part * 32 + i;
    if constexpr (glu) {
      d[0][at] = rule(function, d[0][at], d[1][at]);
    } else {
      d[0][at] = function(d[0][at]);
      d[1][at] = function(d[1][at]);
    }
  }
}

template <class Element, bool k_by_n>
__device__ void multiply_tiles(const FusedUpPlan& plan, Memory& memory, const TileSchedule& schedule,
                               int warpgroup) {
  RingPosition ring;
  TileWriter<Element, true, Memory> writer(memory, warpgroup);
  const GluRule rule(plan.activation);
  for (std::uint32_t place = blockIdx.x; place < schedule.size(); place += gridDim.x) {
    const Work work = work_at(plan, schedule, place);
    if (work.subtiles == 0) continue;
    const int active = active_subtiles(plan, work, warpgroup);
    if (active == 0) {
      skip_stages(memory, ring, plan.k_blocks);
      continue;
    }
    float d[subtiles_per_warpgroup][Memory::tile_n / 2];
    multiply_row_tile<Element, k_by_n>(memory, ring, warpgroup, work.rows.rows, active, plan.k_blocks, d);
    const ThreadBias bias = thread_bias<Element>(plan, work, warpgroup);
    with_activation(plan.activation, [&](auto function) {
#pragma unroll
      for (int part = 0; part < (Memory::tile_n + 63) / 64; ++part) {
        if (part >= row_parts(work.rows.rows)) break;
        pre_activate<Element>(plan, work, bias, part, d);
        if (plan.keeps_pre_activation) writer.write_part(d, active, part, false);
        if (plan.glu)
          activate<true>(rule, function, part, d);
        else
          activate<false>(rule, function, part, d);
        writer.write_part(d, h_subtiles(plan, active), part, false);
      }
    });
  }
}

__device__ void store_tiles(const FusedUpMaps& maps, const FusedUpPlan& plan, Memory& memory,
                            const TileSchedule& schedule, int warpgroup) {
  TileStorer<Memory> storer(memory, warpgroup, &maps.h, false);
  for (std::uint32_t place = blockIdx.x; place < schedule.size(); place += gridDim.x) {
    const Work work = work_at(plan, schedule, place);
    const int active = active_subtiles(plan, work, warpgroup);
    if (active == 0) continue;
    for (int part = 0; part < row_parts(work.rows.rows); ++part) {
      const RaggedCoordinates rows = ragged_coordinates(work.rows.row_begin, work.rows.rows, part * 64);
      const auto at = [&](int subtile) {
        return BoxCoordinates<4>{
            {first_unit(plan, work, warpgroup, subtile), rows.row, rows.origin, rows.wrap}};
      };
      if (plan.keeps_pre_activation)
        storer.store_part(
            active, [&](int subtile) { return &maps.pre_activation[plan.glu ? subtile : 0]; }, at);
      storer.store_part(
          h_subtiles(plan, active), [&](int) { return &maps.h; }, at);
    }
  }
  storer.finish();
}

template <class Element, bool k_by_n>
__global__ void __launch_bounds__(threads_per_block, 1)
    fused_up_kernel(const __grid_constant__ FusedUpMaps maps, const __grid_constant__ FusedUpPlan plan) {
  Memory& memory = tile_memory<Memory>();
  if (threadIdx.x == 32 * loader_warp) {
    for (const CUtensorMap& map : maps.weights) prefetch_map(&map);
    prefetch_map(&maps.h);
  }
  const bool gathers = plan.tokens != nullptr;
  initialise_barriers(memory, gathers ? 1 + gathering_warps : 1);
  allow_next_kernel();
  wait_for_previous_kernel();
  const TileSchedule schedule = schedule_of(plan);
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<216>();
    multiply_tiles<Element, k_by_n>(plan, memory, schedule, warp / 4);
  } else {
    give_registers<64>();
    const int lane = threadIdx.x % 32;
    if (warp == loader_warp && lane == 0) load_tiles<k_by_n>(maps, plan, memory, schedule);
    if (warp == store_warp && lane < consumer_warpgroups) store_tiles(maps, plan, memory, schedule, lane);
    if (warp >= first_gathering_warp && gathers)
      gather_rows(plan, memory, schedule, warp - first_gathering_warp);
  }
  leave_cluster();
}

template <class Element>
auto choose_kernel(WeightOrder order) {
  return order == WeightOrder::k_by_n ? fused_up_kernel<Element, true> : fused_up_kernel<Element, false>;
}

/// The up half of one tensor that holds gate and up: d_ff features further.
const void* past_gate(const ExpertWeights& weights, std::int64_t d_ff) {
  const std::int64_t elements =
      weights.order == WeightOrder::k_by_n ? d_ff : d_ff * weights.leading_dimension;
  return static_cast<const char*>(weights.first.data) + elements * element_bytes(weights.type);
}

}  // namespace
}  // namespace sm90

bool sm90_can_run(const FusedUp& product) {
  const ExpertWeights& weights = product.weights;
  const std::int64_t d_ff = product.kind == MlpKind::glu ? weights.n / 2 : weights.n;
  const bool split = weights.second.data != nullptr || weights.second.matrices != nullptr;
  const auto rows_addressable = [&](const void* data, std::int64_t leading_dimension) {
    return sm90::addressable(data, leading_dimension, weights.type);
  };
  return weights.type != ElementType::fp32 && weights.widths.d_ff == nullptr && d_ff % 8 == 0 &&
         (weights.k % 8 == 0 || !product.gathers) && (!split || product.kind == MlpKind::glu) &&
         tallest_tile_rows(product.rows.tile_rule) <= sm90::Memory::tile_n &&
         product.rows.rows_bound < sm90::ragged_rows && weights.k < (1 << 30) && weights.n < (1 << 30) &&
         product.rows.tile_bound * ceil_div(weights.n, sm90::tile_m) < (1ll << 31) &&
         rows_addressable(product.x.data, product.x.leading_dimension) &&
         (!product.gathers || product.tokens <= (1ll << 35) / product.x.leading_dimension) &&
         rows_addressable(product.h.data, product.h.leading_dimension) &&
         (product.pre_activation.data == nullptr ||
          rows_addressable(product.pre_activation.data, product.pre_activation.leading_dimension)) &&
         sm90::weights_addressable(weights, weights.first) &&
         (!split || sm90::weights_addressable(weights, weights.second));
}

void launch_sm90(const FusedUp& product, Stream stream) {
  using namespace sm90;
  const ExpertWeights& weights = product.weights;
  const ElementType type = weights.type;
  const bool glu = product.kind == MlpKind::glu, gathers = product.gathers;
  const bool split = weights.second.data != nullptr;
  const std::int64_t d_ff = glu ? weights.n / 2 : weights.n;
  FusedUpMaps maps;
  maps.h = ragged_map(product.h.data, d_ff, product.h.leading_dimension, type, 64);
  for (int i = 0; i < row_boxes; ++i)
    maps.in[i] = gathers
                     ? maps.h
                     : ragged_map(product.x.data, weights.k, product.x.leading_dimension, type, box_rows(i));
  maps.weights[0] = weight_map(weights, weights.first.data, weights.first.expert_stride, weights.k, d_ff);
  maps.weights[1] =
      !glu ? maps.weights[0]
           : weight_map(weights, split ? weights.second.data : past_gate(weights, d_ff),
                        split ? weights.second.expert_stride : weights.first.expert_stride, weights.k, d_ff);
  const bool keeps = product.pre_activation.data != nullptr;
  for (int half = 0; half < 2; ++half)
    maps.pre_activation[half] = keeps ? ragged_map(static_cast<const char*>(product.pre_activation.data) +
                                                       (glu ? half * d_ff * element_bytes(type) : 0),
                                                   d_ff, product.pre_activation.leading_dimension, type, 64)
                                      : maps.h;
  const std::int64_t unit_tiles = ceil_div(d_ff, glu ? tile_m / 2 : tile_m);
  const FusedUpPlan plan{product.rows.tiles,
                         product.rows.tile_count,
                         static_cast<std::int32_t>(d_ff),
                         static_cast<std::int32_t>(weights.k),
                         static_cast<std::int32_t>(ceil_div(weights.k, k_block)),
                         static_cast<std::uint32_t>(unit_tiles),
                         glu,
                         gathers ? static_cast<const char*>(product.x.data) : nullptr,
                         static_cast<std::uint32_t>(product.x.leading_dimension * element_bytes(type) / 16),
                         product.row_to_assignment,
                         product.top_k,
                         product.scales,
                         product.bias,
                         keeps,
                         product.activation};
  const std::int64_t work = product.rows.tile_bound * unit_tiles * (glu ? subtiles / 2 : subtiles);
  const Grid grid = persistent_grid(
      work, product.multiprocessors,
      pairs_pay(product.rows.rows_bound, weights.experts, weights.k, product.rows.tile_rule.tile_rows));
  const auto kernel = type == ElementType::bf16 ? choose_kernel<__nv_bfloat16>(weights.order)
                                                : choose_kernel<__half>(weights.order);
  const std::int64_t elements = weights.experts * weights.k * weights.n +
                                product.rows.rows_bound * (weights.k + d_ff + (keeps ? weights.n : 0));
  launch("fused_up_kernel", kernel, grid, threads_per_block, sizeof(Memory), stream,
         launch_order(elements * element_bytes(type)), maps, plan);
}

}  // namespace dropless
