// Block-sparse products of float: no tensor cores, every product and sum in float, k ascending. 16 x 16
// threads hold a tile's sums, PerThread x PerThread each.
#include "block_sparse_plan.hpp"
#include "launch.cuh"

namespace dropless {
namespace {

constexpr int side = 16, threads = side * side, depth = side;

template <int PerThread>
__global__ void __launch_bounds__(threads) float_blocks(const __grid_constant__ BlockProduct product) {
  constexpr int extent = side * PerThread;
  __shared__ float left[depth][extent + 1], right[depth][extent + 1];
  const int thread = static_cast<int>(threadIdx.x), thread_row = thread / side, thread_column = thread % side;
  if (!block_tile_exists(product, blockIdx.x, extent, extent)) return;
  const BlockTile tile = block_tile(product, blockIdx.x, extent, extent, depth);

  // One step of an operand, transposed on the way where k is contiguous; what lies outside reads as zero.
  const auto load = [&](float(&to)[depth][extent + 1], const ProductOperand& from, std::int64_t offset,
                        int d_left, int depth_left) {
    const int k = from.k_inner ? thread_column : thread_row;
    const int first_d = from.k_inner ? thread_row : thread_column;
    const auto* source = static_cast<const float*>(from.data) + offset + from.offset(first_d, k);
    const std::int64_t pass = from.offset(side, 0);
#pragma unroll
    for (int i = 0; i < PerThread; ++i) {
      const int d = first_d + i * side;
      to[k][d] = d < d_left && k < depth_left ? source[i * pass] : 0.0F;
    }
  };

  float sums[PerThread][PerThread] = {};
  for (std::int32_t step = 0; step < tile.steps; ++step) {
    const BlockStep source = block_step(product, tile, step, depth);
    __syncthreads();
    load(left, product.left, source.left, extent, source.depth_left);
    load(right, product.right, source.right, tile.columns, source.depth_left);
    __syncthreads();
    for (int k = 0; k < source.depth_left; ++k)
#pragma unroll
      for (int i = 0; i < PerThread; ++i)
#pragma unroll
        for (int j = 0; j < PerThread; ++j)
          sums[i][j] = fmaf(left[k][thread_row + i * side], right[k][thread_column + j * side], sums[i][j]);
  }
  auto* out = static_cast<float*>(product.out.data) + tile.out;
#pragma unroll
  for (int i = 0; i < PerThread; ++i)
#pragma unroll
    for (int j = 0; j < PerThread; ++j) {
      const int row = thread_row + i * side, column = thread_column + j * side;
      if (column < tile.columns) out[product.out.offset(row, column)] = sums[i][j];
    }
}

template <int PerThread>
void launch_extent(const BlockProduct& product, Stream stream) {
  const std::int64_t tiles = block_tile_count(product, side * PerThread, side * PerThread);
  if (tiles == 0) return;
  launch("float_blocks", float_blocks<PerThread>,
         dim3(static_cast<unsigned>(checked_int32(tiles, "tiles of the product"))), dim3(threads), 0, stream,
         LaunchOrder::after_previous, product);
}

}  // namespace

void launch_float_blocks(const BlockProduct& product, Stream stream) {
  if (product.block == 16) return launch_extent<1>(product, stream);
  if (product.block == 32) return launch_extent<2>(product, stream);
  launch_extent<4>(product, stream);
}

}  // namespace dropless
