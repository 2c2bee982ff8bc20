// Hopper kernel for the block-sparse products with blocks of 64 and 128 (sdd, dsd and dds, every transpose).
//
// Columns of the output are wgmma's M and rows its N (block_passes.hpp): the A operand is always the dense
// right one, the B operand the left one's rows of one block row, or of two that are alike. In DSD k runs over
// the blocks of the block row, in SDD over the dense operands' shared extent; either way in steps of 64,
// ascending, so that a result's bits do not depend on its neighbours. A persistent grid walks the tiles: in
// each block one thread finds its passes, one loads by TMA, two warpgroups multiply, and finished tiles leave
// through TMA stores.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>

#include "device_properties.hpp"
#include "sm90/block_passes.hpp"
#include "sm90/launch_order.hpp"
#include "sm90/tensor_map.hpp"
#include "sm90/tile_pipeline.cuh"
#include "sm90/work_queue.cuh"

namespace dropless {
namespace sm90 {
namespace {

static_assert(box_side == k_block);
using Memory = TileMemory<tile_rows, most_subtiles, 2>;
constexpr int most_parts = tile_rows / box_side;

struct BlockSparseMaps {
  CUtensorMap left, right;  // where there is no k, unused copies of out
  CUtensorMap out;
};

using PassQueue = WorkQueue<BlockPass>;
struct BlockMemory {
  Memory tiles;
  PassQueue passes;
};
constexpr int pass_readers = 1 + 4 * consumer_warpgroups + consumer_warpgroups;  // loader, consumers, storers
constexpr int scheduler_warp = first_store_warp + consumer_warpgroups;

/// Finds the passes of this thread block.
__device__ void schedule_passes(const BlockProduct& product, PassQueue& queue) {
  const TileSchedule schedule = block_schedule(product, gridDim.x);
  WorkQueueEnd<BlockPass> passes(queue);
  for (std::uint32_t place = blockIdx.x; place < schedule.size(); place += gridDim.x) {
    const CellTile tile = cell_tile(product, schedule.at(place));
    for (std::int32_t done = 0; done < tile.cells;) {
      const BlockPass pass = block_pass(product, tile, done);
      passes.put(pass);
      done += pass.subtiles * pass.block_rows;
    }
  }
  passes.put({});
}

template <bool right_k_inner, bool left_k_inner>
__device__ void load_tiles(const BlockSparseMaps& maps, const BlockProduct& product, Memory& memory,
                           PassQueue& queue) {
  RingPosition ring;
  WorkQueueEnd<BlockPass> passes(queue);
  for (BlockPass pass = passes.take(); pass.subtiles > 0; pass = passes.take()) {
    if (pass.steps == 0) continue;
    const int parts = row_parts(product, pass);
    std::int32_t columns[most_subtiles];
    for (int i = 0; i < most_subtiles; ++i)
      columns[i] = i < pass.subtiles ? subtile_column(product, pass, i) : 0;
    PassEntry next = pass_entry(product, pass, 0);
    for (int step = 0; step < pass.steps; ++step) {
      const PassEntry entry = next;
      wait(memory.empty[ring.stage], ring.parity ^ 1);
      next = pass_entry(product, pass, step + 1 < pass.steps ? step + 1 : step);
      std::uint64_t& full = memory.full[ring.stage];
      expect_bytes(full, (pass.subtiles + parts) * subtile_bytes);
#pragma unroll
      for (int part = 0; part < most_parts; ++part)
        if (part < parts)
          load_box(memory.b[ring.stage] + part * subtile_bytes, &maps.left,
                   left_box(product, left_k_inner, pass, entry, step, part).at, full);
#pragma unroll
      for (int i = 0; i < most_subtiles; ++i)
        if (i < pass.subtiles)
          load_box(memory.a[ring.stage][i], &maps.right,
                   right_box(product, right_k_inner, entry, step, columns[i]).at, full);
      ring.advance();
    }
  }
}

/// How many of a consumer warpgroup's subtiles the pass has.
__device__ int active_subtiles(const BlockPass& pass, int warpgroup) {
  return (pass.subtiles > warpgroup) + (pass.subtiles > warpgroup + consumer_warpgroups);
}

template <class Element, bool right_k_inner, bool left_k_inner>
__device__ void multiply_tiles(const BlockProduct& product, Memory& memory, PassQueue& queue, int warpgroup) {
  RingPosition ring;
  WorkQueueEnd<BlockPass> passes(queue);
  TileWriter<Element, true, Memory> writer_by_rows(memory, warpgroup);
  TileWriter<Element, false, Memory> writer_by_columns(memory, warpgroup);
  float d[Memory::subtiles_per_warpgroup][Memory::tile_n / 2] = {};
  for (BlockPass pass = passes.take_by_warp(); pass.subtiles > 0; pass = passes.take_by_warp()) {
    const int active = active_subtiles(pass, warpgroup), parts = row_parts(product, pass);
    if (active == 0) {
      skip_stages(memory, ring, pass.steps);
      continue;
    }
    if (pass.steps == 0) clear(d);  // otherwise the first product starts from zero by itself
    const auto multiply = [&]<int rows, int count>() {
      multiply_stages<Element, rows, count, !right_k_inner, !left_k_inner>(memory, ring, warpgroup,
                                                                           pass.steps, 0, d);
    };
    if (parts == 2)
      active == 2 ? multiply.template operator()<128, 2>() : multiply.template operator()<128, 1>();
    else
      active == 2 ? multiply.template operator()<64, 2>() : multiply.template operator()<64, 1>();
    if (product.out.n_inner)
      writer_by_rows.write(d, active, parts, false);
    else
      writer_by_columns.write(d, active, parts, false);
  }
}

__device__ void store_tiles(const BlockSparseMaps& maps, const BlockProduct& product, Memory& memory,
                            PassQueue& queue, int warpgroup) {
  TileStorer<Memory> storer(memory, warpgroup, false);
  WorkQueueEnd<BlockPass> passes(queue);
  for (BlockPass pass = passes.take(); pass.subtiles > 0; pass = passes.take()) {
    const int active = active_subtiles(pass, warpgroup);
    if (active == 0) continue;
    storer.store(&maps.out, active, row_parts(product, pass), [&](int subtile, int part) {
      const Box box = out_box(product, pass, consumer_warpgroups * subtile + warpgroup, part);
      return BoxCoordinates<3>{{box.at[0], box.at[1], box.at[2]}};
    });
  }
  storer.finish();
}

template <class Element, bool right_k_inner, bool left_k_inner>
__global__ void __launch_bounds__(threads_per_block, 1)
    block_sparse_kernel(const __grid_constant__ BlockSparseMaps maps,
                        const __grid_constant__ BlockProduct product) {
  auto& [memory, passes] = tile_memory<BlockMemory>();
  if (threadIdx.x == 32 * loader_warp)
    for (const CUtensorMap* map : {&maps.left, &maps.right, &maps.out}) prefetch_map(map);
  if (threadIdx.x == 0) passes.initialise(pass_readers);
  initialise_barriers(memory);
  allow_next_kernel();
  wait_for_previous_kernel();
  const int warp = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);
  if (warp < loader_warp) {
    take_registers<224>();
    multiply_tiles<Element, right_k_inner, left_k_inner>(product, memory, passes, warp / 4);
  } else {
    give_registers<56>();
    if (!elected()) return;
    if (warp == loader_warp)
      load_tiles<right_k_inner, left_k_inner>(maps, product, memory, passes);
    else if (warp < scheduler_warp)
      store_tiles(maps, product, memory, passes, warp - first_store_warp);
    else
      schedule_passes(product, passes);
  }
}

template <class Element>
auto choose_kernel(const BlockProduct& product) {
  if (product.right.k_inner)
    return product.left.k_inner ? block_sparse_kernel<Element, true, true>
                                : block_sparse_kernel<Element, true, false>;
  return product.left.k_inner ? block_sparse_kernel<Element, false, true>
                              : block_sparse_kernel<Element, false, false>;
}

CUtensorMap map_over(const MatrixStack& stack, ElementType type) {
  return matrix_map(stack.data, stack.columns, stack.rows, stack.matrices, stack.leading_dimension,
                    stack.matrix_stride, type);
}

std::int64_t elements(const MatrixStack& stack) { return stack.matrices * stack.rows * stack.columns; }

}  // namespace
}  // namespace sm90

bool sm90_can_run(const BlockProduct& product) {
  constexpr std::int64_t most = 1 << 30;  // coordinates are int32
  const auto reachable = [&](const void* data, std::int64_t leading_dimension) {
    return sm90::addressable(data, leading_dimension, product.type);
  };
  const std::int64_t in_block = product.block / sm90::box_side;
  const std::int64_t tiles = product.sparse_output
                                 ? product.nonzero_blocks * in_block
                                 : product.rows / product.block * ceil_div(product.columns, sm90::box_side);
  // A TMA store writes whole 16-byte chunks, past the last element of a row that does not end on one.
  const bool rows_end_on_chunks = product.sparse_output || !product.out.n_inner || product.columns % 8 == 0;
  return product.type != ElementType::fp32 && product.block >= sm90::box_side && rows_end_on_chunks &&
         product.rows < most && product.columns < most && product.depth < most &&
         product.nonzero_blocks * in_block < most && tiles < most &&
         reachable(product.left.data, product.left.leading_dimension) &&
         reachable(product.right.data, product.right.leading_dimension) &&
         reachable(product.out.data, product.out.leading_dimension);
}

void launch_sm90(const BlockProduct& product, Stream stream) {
  using namespace sm90;
  const MatrixStack left = left_stack(product), right = right_stack(product), out = out_stack(product);
  BlockSparseMaps maps;
  maps.out = map_over(out, product.type);
  maps.left = elements(left) > 0 ? map_over(left, product.type) : maps.out;
  maps.right = elements(right) > 0 ? map_over(right, product.type) : maps.out;
  const std::int64_t subtiles_bound = ceil_div(elements(out), box_side * product.block);
  const auto blocks = static_cast<std::uint32_t>(
      std::min<std::int64_t>(subtiles_bound, current_device_properties().multiprocessors));
  const auto kernel = product.type == ElementType::bf16 ? choose_kernel<__nv_bfloat16>(product)
                                                        : choose_kernel<__half>(product);
  const std::int64_t bytes = (elements(left) + elements(right) + elements(out)) * element_bytes(product.type);
  launch("block_sparse_kernel", kernel, blocks, threads_per_block, sizeof(BlockMemory), stream,
         launch_order(bytes), maps, product);
}

}  // namespace dropless
