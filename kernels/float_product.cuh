// The portable kernel for float operands: no tensor cores, every product and sum in float, k ascending. A
// persistent grid of 512-thread blocks walks 128 x 128 tiles; each thread holds 8 x 4 sums.
#pragma once
#include "launch.cuh"
#include "tile_problem.cuh"

namespace dropless {

/// Shape of the kernel's tiles and stages.
struct FloatTile {
  static constexpr int side = 128, depth = 16, threads = 512, threads_down = 16, threads_across = 32;
  static constexpr int sums_down = side / threads_down, sums_across = side / threads_across;
  using Stage = float[depth][side + 1];
};

/// One stage of an operand, transposed on the way where k is innermost; what lies outside reads as zero.
template <bool KInner>
__device__ __forceinline__ void load_float_stage(FloatTile::Stage& to, const float* from,
                                                 std::int64_t leading_dimension, int extent, int k_left) {
  constexpr int depth = FloatTile::depth, side = FloatTile::side;
#pragma unroll
  for (int first = 0; first < depth * side; first += FloatTile::threads) {
    const int index = first + static_cast<int>(threadIdx.x);
    const int k = KInner ? index % depth : index / side, d = KInner ? index / depth : index % side;
    const std::int64_t offset = KInner ? d * leading_dimension + k : k * leading_dimension + d;
    to[k][d] = d < extent && k < k_left ? from[offset] : 0.0f;
  }
}

template <bool AKInner, bool BKInner, class Product>
__global__ void __launch_bounds__(FloatTile::threads, 1)
    float_product(const __grid_constant__ Product product) {
  using Tile = FloatTile;
  __shared__ Tile::Stage a_stage, b_stage;
  const int down = static_cast<int>(threadIdx.x) / Tile::threads_across;
  const int across = static_cast<int>(threadIdx.x) % Tile::threads_across;
  TileWalk<Tile::side, Tile::side, Product> walk(product);
  for (std::uint32_t index = blockIdx.x; index < walk.size(); index += gridDim.x) {
    const TileProblem<float> problem = walk.template problem<float>(product, index);
    if (problem.rows <= 0 || problem.columns <= 0) continue;
    float sums[Tile::sums_down][Tile::sums_across] = {};
    for (int part = 0; part < problem.k_parts; ++part) {
      const float* a = problem.a + static_cast<std::int64_t>(part) * problem.k_part;
      const float* b = part == 0 ? problem.b : problem.b_second;
      for (int k_left = problem.k_part; k_left > 0; k_left -= Tile::depth) {
        __syncthreads();
        load_float_stage<AKInner>(a_stage, a, problem.a_leading_dimension, problem.rows, k_left);
        load_float_stage<BKInner>(b_stage, b, problem.b_leading_dimension, problem.columns, k_left);
        __syncthreads();
        a += Tile::depth * (AKInner ? 1 : problem.a_leading_dimension);
        b += Tile::depth * (BKInner ? 1 : problem.b_leading_dimension);
#pragma unroll 4
        for (int k = 0; k < Tile::depth; ++k)
#pragma unroll
          for (int i = 0; i < Tile::sums_down; ++i)
#pragma unroll
            for (int j = 0; j < Tile::sums_across; ++j)
              sums[i][j] = fmaf(a_stage[k][down + i * Tile::threads_down],
                                b_stage[k][across + j * Tile::threads_across], sums[i][j]);
      }
    }
#pragma unroll
    for (int i = 0; i < Tile::sums_down; ++i)
#pragma unroll
      for (int j = 0; j < Tile::sums_across; ++j) {
        const int row = down + i * Tile::threads_down, column = across + j * Tile::threads_across;
        if (row >= problem.rows || column >= problem.columns) continue;
        float& target = reinterpret_cast<float*>(problem.out)[row * problem.out_leading_dimension + column];
        target = product.accumulate ? target + sums[i][j] : sums[i][j];
      }
  }
}

template <bool AKInner, bool BKInner, class Product>
void launch_float_product(const Product& product, Stream stream) {
  launch("float_product", float_product<AKInner, BKInner, Product>,
         grid_blocks<FloatTile::side, FloatTile::side>(product), FloatTile::threads, 0, stream,
         LaunchOrder::after_previous, product);
}

}  // namespace dropless
