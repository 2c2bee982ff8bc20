// Block-sparse products of bf16 and fp16 by mma.sync: one thread block computes one tile from a pipeline of
// four stages, then stages the tile in shared memory so that it leaves in whole rows.
#include "block_sparse_plan.hpp"
#include "launch.cuh"
#include "mma_tile.cuh"

namespace dropless {
namespace {

/// A tile, the values of k a stage holds, and the part of the tile that a warp computes.
template <int Rows, int Columns, int Depth, int WarpRows, int WarpColumns>
struct TileShape {
  static constexpr int rows = Rows, columns = Columns, depth = Depth;
  static constexpr int warp_rows = WarpRows, warp_columns = WarpColumns;
  static constexpr int warps_across = Columns / WarpColumns;
  static constexpr int threads = Rows / WarpRows * warps_across * 32;
  static constexpr int stages = 4;
  using Left = OperandStage<Rows, Depth>;
  using Right = OperandStage<Columns, Depth>;
  using Out = OperandStage<Rows, Columns>;  // its k is n
  static constexpr int stage_chunks = Left::chunks + Right::chunks;
  static constexpr int shared_bytes = stages * stage_chunks * static_cast<int>(sizeof(uint4));
  static_assert(Out::chunks <= stages * stage_chunks && shared_bytes <= 99 * 1024);
  static_assert(stage_chunks % 8 == 0, "every stage begins on 128 bytes");
};

template <class Element, class Shape>
__global__ void __launch_bounds__(Shape::threads)
    tensor_core_blocks(const __grid_constant__ BlockProduct product) {
  extern __shared__ __align__(128) uint4 shared[];  // see tensor_core_product.cuh
  const typename Shape::Left left_layout{product.left.k_inner};
  const typename Shape::Right right_layout{product.right.k_inner};
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int warp_row = warp / Shape::warps_across * Shape::warp_rows;
  const int warp_column = warp % Shape::warps_across * Shape::warp_columns;
  if (!block_tile_exists(product, blockIdx.x, Shape::rows, Shape::columns)) return;
  const BlockTile tile = block_tile(product, blockIdx.x, Shape::rows, Shape::columns, Shape::depth);

  const auto load = [&](std::int32_t step) {
    if (step < tile.steps) {
      uint4* stage = shared + step % Shape::stages * Shape::stage_chunks;
      const BlockStep source = block_step(product, tile, step, Shape::depth);
      const auto window = [&](const ProductOperand& operand, std::int64_t offset, int d_left) {
        return StageWindow<const Element>{static_cast<const Element*>(operand.data) + offset,
                                          operand.leading_dimension,
                                          operand.k_inner ? d_left : source.depth_left,
                                          operand.k_inner ? source.depth_left : d_left, operand.by_chunks};
      };
      load_stage<Shape::threads>(stage, left_layout, window(product.left, source.left, Shape::rows), thread);
      load_stage<Shape::threads>(stage + Shape::Left::chunks, right_layout,
                                 window(product.right, source.right, tile.columns), thread);
    }
    commit_copies();
  };

  WarpTile<Element, Shape::warp_rows, Shape::warp_columns> sums;
  for (std::int32_t step = 0; step < Shape::stages - 1; ++step) load(step);
  for (std::int32_t step = 0; step < tile.steps; ++step) {
    wait_for_copies<Shape::stages - 2>();
    __syncthreads();
    load(step + Shape::stages - 1);
    const uint4* stage = shared + step % Shape::stages * Shape::stage_chunks;
    sums.multiply(stage, left_layout, stage + Shape::Left::chunks, right_layout, warp_row, warp_column, lane);
  }
  wait_for_copies<0>();
  __syncthreads();

  const typename Shape::Out out_layout{product.out.n_inner};
  auto* staged = reinterpret_cast<Element*>(shared);
  sums.for_each(lane, [&](int row, int column, float value) {
    staged[out_layout.element(warp_row + row, warp_column + column)] = from_float<Element>(value);
  });
  __syncthreads();
  const StageWindow<Element> window{static_cast<Element*>(product.out.data) + tile.out,
                                    product.out.leading_dimension,
                                    product.out.n_inner ? Shape::rows : tile.columns,
                                    product.out.n_inner ? tile.columns : Shape::rows, product.out.by_chunks};
  store_stage<Shape::threads>(shared, out_layout, window, thread);
}

template <class Element, class Shape>
void launch_shape(const BlockProduct& product, Stream stream) {
  const std::int64_t tiles = block_tile_count(product, Shape::rows, Shape::columns);
  if (tiles == 0) return;
  launch("tensor_core_blocks", tensor_core_blocks<Element, Shape>,
         dim3(static_cast<unsigned>(checked_int32(tiles, "tiles of the product"))), dim3(Shape::threads),
         Shape::shared_bytes, stream, LaunchOrder::after_previous, product);
}

template <class Element>
void launch_element(const BlockProduct& product, Stream stream) {
  using Tile128 = TileShape<128, 128, 32, 64, 32>;
  if (product.block == 128) return launch_shape<Element, Tile128>(product, stream);
  if (product.sparse_output) {
    if (product.block == 64) return launch_shape<Element, TileShape<64, 64, 32, 32, 32>>(product, stream);
    if (product.block == 32) return launch_shape<Element, TileShape<32, 32, 32, 16, 16>>(product, stream);
    return launch_shape<Element, TileShape<16, 16, 32, 16, 16>>(product, stream);
  }
  if (product.block == 64) return launch_shape<Element, TileShape<64, 128, 32, 32, 64>>(product, stream);
  if (product.block == 32) return launch_shape<Element, TileShape<32, 128, 32, 32, 32>>(product, stream);
  return launch_shape<Element, TileShape<16, 128, 16, 16, 32>>(product, stream);
}

}  // namespace

void launch_tensor_core_blocks(const BlockProduct& product, Stream stream) {
  if (product.type == ElementType::bf16)
    launch_element<__nv_bfloat16>(product, stream);
  else
    launch_element<__half>(product, stream);
}

}  // namespace dropless
