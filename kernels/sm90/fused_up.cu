// Hopper kernel for the first half of an expert layer: h[r, :] = activation(scale[r] * x[token of r, :] W[e]
// + bias[e]), for inference without the pre-activation in memory, and where it gathers without a gathered
// copy of the tokens.
//
// The finishing warps of the frame turn a tile into h where it lies. A slot of the staging area goes from the
// consumers (`staged`) to the finishing warps, from these, as p if it is kept (`pre_activated`), to the store
// thread and back (`kept`), and as h (`activated`) to the store thread, which gives it back (`ready`).
//
// Values are rounded where single calls round them, kept or not: fused or composed, for training or for
// inference, forward gives the same bits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "activation_chunks.cuh"
#include "fused_up.hpp"
#include "sm90/finished_tiles.cuh"
#include "sm90/launch_order.hpp"

namespace dropless {
namespace sm90 {
namespace {

struct Memory : RowProductMemory {
  std::uint64_t pre_activated[consumer_warpgroups][RowTileMemory::staging_slots];
  std::uint64_t kept[consumer_warpgroups][RowTileMemory::staging_slots];
  std::uint64_t activated[consumer_warpgroups][RowTileMemory::staging_slots];
};

struct FusedUpMaps {
  RowProductMaps product;
  CUtensorMap pre_activation[2];  // p's columns of the halves; unused where p is not kept
  CUtensorMap h;
};

struct FusedUpPlan {
  RowProductPlan product;
  const float* scales;  // null: ones
  const void* bias;     // null: none
  bool keeps_pre_activation;
  Activation activation;
};

/// How many of a slot's pieces become pieces of h: for glu the gate's.
__device__ int h_pieces(const RowProductPlan& plan, int active) { return active / plan.halves; }

/// Says that all of this warp's writes to a slot are there, for TMA too. The whole warp must call it.
__device__ void announce(std::uint64_t& barrier) {
  ptx::fence_proxy_async(ptx::space_shared);
  __syncwarp();
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&barrier);
}

/// Turns the products in a slot into p where they lie.
template <class Element>
__device__ void pre_activate(const FusedUpPlan& plan, const Work& work, int warpgroup, int active,
                             int first_row, const ThreadChunks& chunks) {
  const RowProductPlan& product = plan.product;
  const int rows = work.rows.rows - first_row, columns = product.halves * product.units;
  for (int piece = 0; piece < active; ++piece) {
    const int unit = first_unit(product, work, warpgroup, piece) + chunks.column();
    uint4 bias{};
    if (plan.bias != nullptr && unit < product.units)
      bias = *reinterpret_cast<const uint4*>(static_cast<const Element*>(plan.bias) +
                                             std::int64_t{work.rows.expert} * columns +
                                             (product.halves == 2 ? piece * product.units : 0) + unit);
#pragma unroll 1
    for (int step = 0; step < chunks.steps && chunks.row(step) < rows; ++step) {
      float scale = 1.0f;
      if (plan.scales != nullptr) {
        const std::int32_t row = work.rows.row_begin + first_row + chunks.row(step);
        scale = plan.scales[product.row_to_assignment == nullptr ? row : product.row_to_assignment[row]];
      }
      chunks.at(piece, step) = pre_activate_chunk<Element>(scale, chunks.at(piece, step), bias);
    }
  }
}

/// Turns p of the first `steps` steps of a slot into h, in its place, or for glu in the gate's. kept: what to
/// wait for before p may be overwritten, or null. Rows past the tile's are computed and not stored.
template <bool glu, class Element, class Function>
__device__ __forceinline__ void activate(const GluRule& rule, Function function, int pieces, int steps,
                                         const ThreadChunks& chunks, std::uint64_t* kept,
                                         std::uint32_t parity) {
  constexpr int at_once = ThreadChunks::steps_at_once;
  for (int piece = 0; piece < pieces; ++piece)
    for (int first = 0; first < steps; first += at_once) {
      uint4 h[at_once], up[at_once]{};
#pragma unroll
      for (int i = 0; i < at_once; ++i) {
        h[i] = chunks.at(piece, first + i);
        if constexpr (glu) up[i] = chunks.at(1, first + i);
      }
#pragma unroll
      for (int i = 0; i < at_once; ++i) h[i] = activate_chunk<glu, Element>(rule, function, h[i], up[i]);
      if (kept != nullptr) wait(*kept, parity);
#pragma unroll
      for (int i = 0; i < at_once; ++i) chunks.at(piece, first + i) = h[i];
    }
}

template <class Element, bool glu, class Function>
__device__ __forceinline__ void activate_tiles(const FusedUpPlan& plan, Memory& memory, int warpgroup,
                                               Function function) {
  const GluRule rule(plan.activation);
  const bool plain = plan.scales == nullptr && plan.bias == nullptr, keeps = plan.keeps_pre_activation;
  StagingStep<RowTileMemory::staging_slots> staging;
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take_by_warp(); work.subtiles != 0; work = queue.take_by_warp()) {
    const int active = active_subtiles(plan.product, work, warpgroup);
    if (active == 0) continue;
    for (int part = 0; part < row_parts(work.rows.rows); ++part, ++staging.count) {
      const int slot = staging.slot();
      const ThreadChunks chunks(memory, warpgroup, slot);
      wait(memory.staged[warpgroup][slot], staging.parity());
      if (!plain) pre_activate<Element>(plan, work, warpgroup, active, part * 64, chunks);
      if (keeps) announce(memory.pre_activated[warpgroup][slot]);
      activate<glu, Element>(rule, function, h_pieces(plan.product, active),
                             chunks.steps_of(work.rows.rows - part * 64), chunks,
                             keeps ? &memory.kept[warpgroup][slot] : nullptr, staging.parity());
      announce(memory.activated[warpgroup][slot]);
    }
  }
}

__device__ void store_tiles(const FusedUpMaps& maps, const FusedUpPlan& plan, Memory& memory, int warpgroup) {
  StagingStep<RowTileMemory::staging_slots> step;
  for (std::uint64_t& ready : memory.ready[warpgroup]) ptx::mbarrier_arrive(&ready);
  WorkQueueEnd<Work> queue(memory.work);
  for (Work work = queue.take(); work.subtiles != 0; work = queue.take()) {
    const int active = active_subtiles(plan.product, work, warpgroup);
    if (active == 0) continue;
    for (int part = 0; part < row_parts(work.rows.rows); ++part, ++step.count) {
      const RaggedCoordinates rows = ragged_coordinates(work.rows.row_begin, work.rows.rows, part * 64);
      const int slot = step.slot();
      const auto store = [&](std::uint64_t& there, int pieces, const CUtensorMap* first_map, int next_map) {
        wait(there, step.parity());
        for (int piece = 0; piece < pieces; ++piece)
          store_box(first_map + piece * next_map,
                    {first_unit(plan.product, work, warpgroup, piece), rows.row, rows.origin, rows.wrap},
                    memory.output[warpgroup][slot][piece]);
        ptx::cp_async_bulk_commit_group();
        ptx::cp_async_bulk_wait_group_read(ptx::n32_t<0>());
      };
      if (plan.keeps_pre_activation) {
        store(memory.pre_activated[warpgroup][slot], active, maps.pre_activation, plan.product.halves - 1);
        ptx::mbarrier_arrive(&memory.kept[warpgroup][slot]);
      }
      store(memory.activated[warpgroup][slot], h_pieces(plan.product, active), &maps.h, 0);
      ptx::mbarrier_arrive(&memory.ready[warpgroup][slot]);
    }
  }
  ptx::cp_async_bulk_wait_group(ptx::n32_t<0>());
}

/// Beside those of initialise_barriers, which makes them visible.
__device__ void initialise_activation_barriers(Memory& memory) {
  if (threadIdx.x != 0) return;
  for (int i = 0; i < consumer_warpgroups * RowTileMemory::staging_slots; ++i) {
    const int warpgroup = i / RowTileMemory::staging_slots, slot = i % RowTileMemory::staging_slots;
    ptx::mbarrier_init(&memory.pre_activated[warpgroup][slot], finishing_warps);
    ptx::mbarrier_init(&memory.kept[warpgroup][slot], 1);
    ptx::mbarrier_init(&memory.activated[warpgroup][slot], finishing_warps);
  }
}

template <class Element, bool k_by_n>
__global__ void __launch_bounds__(row_product_threads, 1)
    fused_up_kernel(const __grid_constant__ FusedUpMaps maps, const __grid_constant__ FusedUpPlan plan) {
  Memory& memory = tile_memory<Memory>();
  initialise_activation_barriers(memory);
  run_row_product<Element, k_by_n>(
      maps.product, plan.product, memory,
      [&](int warpgroup) {
        with_activation(plan.activation, [&](auto function) {
          if (plan.product.halves == 2)
            activate_tiles<Element, true>(plan, memory, warpgroup, function);
          else
            activate_tiles<Element, false>(plan, memory, warpgroup, function);
        });
      },
      [&](int warpgroup) { store_tiles(maps, plan, memory, warpgroup); });
}

template <class Element>
auto choose_kernel(WeightOrder order) {
  return order == WeightOrder::k_by_n ? fused_up_kernel<Element, true> : fused_up_kernel<Element, false>;
}

int halves_of(MlpKind kind) { return kind == MlpKind::glu ? 2 : 1; }

}  // namespace
}  // namespace sm90

bool sm90_can_run(const FusedUp& product) {
  const ExpertWeights& weights = product.weights;
  const auto rows_addressable = [&](const void* data, std::int64_t leading_dimension) {
    return sm90::addressable(data, leading_dimension, weights.type);
  };
  return sm90::row_product_possible(product.rows, weights, sm90::halves_of(product.kind)) &&
         (weights.k % 8 == 0 || !product.gathers) &&
         rows_addressable(product.x.data, product.x.leading_dimension) &&
         (!product.gathers || product.tokens <= (1ll << 35) / product.x.leading_dimension) &&
         rows_addressable(product.h.data, product.h.leading_dimension) &&
         (product.pre_activation.data == nullptr ||
          rows_addressable(product.pre_activation.data, product.pre_activation.leading_dimension)) &&
         reinterpret_cast<std::uintptr_t>(product.bias) % 16 == 0;
}

void launch_sm90(const FusedUp& product, Stream stream) {
  using namespace sm90;
  const ExpertWeights& weights = product.weights;
  const ElementType type = weights.type;
  const int halves = halves_of(product.kind);
  const std::int64_t d_ff = weights.n / halves;
  const bool keeps = product.pre_activation.data != nullptr;
  FusedUpMaps maps;
  maps.product =
      row_product_maps(product.gathers ? RowsView{} : product.x, weights, product.rows.rows_bound, halves);
  maps.h = ragged_map(product.h.data, d_ff, product.h.leading_dimension, type, 64);
  for (int half = 0; half < 2; ++half)
    maps.pre_activation[half] = keeps ? ragged_map(static_cast<const char*>(product.pre_activation.data) +
                                                       half % halves * d_ff * element_bytes(type),
                                                   d_ff, product.pre_activation.leading_dimension, type, 64)
                                      : maps.h;
  FusedUpPlan plan{row_product_plan(product.rows, weights, halves), product.scales, product.bias, keeps,
                   product.activation};
  if (product.gathers) {
    plan.product.tokens = static_cast<const char*>(product.x.data);
    plan.product.token_chunks =
        static_cast<std::uint32_t>(product.x.leading_dimension * element_bytes(type) / 16);
  }
  plan.product.row_to_assignment = product.row_to_assignment;
  plan.product.top_k = product.top_k;
  const auto kernel = type == ElementType::bf16 ? choose_kernel<__nv_bfloat16>(weights.order)
                                                : choose_kernel<__half>(weights.order);
  const std::int64_t elements = weights.experts * weights.k * weights.n +
                                product.rows.rows_bound * (weights.k + d_ff + (keeps ? weights.n : 0));
  launch("fused_up_kernel", kernel, row_product_blocks(product.rows, weights, product.multiprocessors),
         row_product_threads, sizeof(Memory), stream,
         launch_order(elements * element_bytes(type), few_rows(product.rows.rows_bound, weights.experts)),
         maps, plan);
}

}  // namespace dropless
