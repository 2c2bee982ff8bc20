// How the Hopper kernel cuts a block-sparse product into passes over k, and which boxes each pass loads and
// stores: plain index arithmetic that the CPU tests.
//
// Columns of the output are wgmma's M and the rows of one block row its N. A tile is up to four subtiles of
// 64 columns: neighbouring columns of a dense output, or the columns of consecutive blocks of a sparse one. A
// tile of blocks that reaches into the next block row takes a pass for each, since rows are shared by a pass.
#pragma once
#include "block_sparse_plan.hpp"
#include "sm90/tile_schedule.hpp"

namespace dropless::sm90 {

constexpr int box_side = 64;  // of every box, rows and columns

/// Row-major matrices [rows, columns], `matrix_stride` elements apart, as a tensor map sees an operand.
struct MatrixStack {
  const void* data;
  std::int64_t columns, rows, matrices;
  std::int64_t leading_dimension, matrix_stride;
};

/// Where a box begins: column, row and matrix.
struct Box {
  std::int32_t at[3];
};

inline MatrixStack stack_of_values(const BlockProduct& product, const void* values) {
  const std::int64_t block = product.block;
  return {values, block, block, product.nonzero_blocks, block, block * block};
}
inline MatrixStack dense_stack(const void* data, std::int64_t leading_dimension, std::int64_t rows,
                               std::int64_t columns) {
  return {data, columns, rows, 1, leading_dimension, rows * leading_dimension};
}
inline MatrixStack dense_operand_stack(const ProductOperand& operand, std::int64_t extent,
                                       std::int64_t depth) {
  return dense_stack(operand.data, operand.leading_dimension, operand.k_inner ? extent : depth,
                     operand.k_inner ? depth : extent);
}
inline MatrixStack left_stack(const BlockProduct& product) {
  return product.sparse_output ? dense_operand_stack(product.left, product.rows, product.depth)
                               : stack_of_values(product, product.left.data);
}
inline MatrixStack right_stack(const BlockProduct& product) {
  return dense_operand_stack(product.right, product.columns, product.depth);
}
inline MatrixStack out_stack(const BlockProduct& product) {
  const ProductOutput& out = product.out;
  if (product.sparse_output) return stack_of_values(product, out.data);
  return dense_stack(out.data, out.leading_dimension, out.n_inner ? product.rows : product.columns,
                     out.n_inner ? product.columns : product.rows);
}

/// The tiles of the product, by `blocks` thread blocks. A sparse output is one row tile of all its subtiles.
DROPLESS_HOST_DEVICE inline TileSchedule block_schedule(const BlockProduct& product, std::uint32_t blocks) {
  const BlockCounts* const counts = product.counts;
  std::int64_t row_tiles = 1, row_subtiles = ceil_div(product.columns, box_side);
  if (product.sparse_output)
    row_subtiles =
        (counts != nullptr ? counts->nonzero_blocks : product.nonzero_blocks) * (product.block / box_side);
  else
    row_tiles = counts != nullptr ? counts->block_rows : product.rows / product.block;
  const TileRaster raster{static_cast<std::uint32_t>(row_tiles),
                          static_cast<std::uint32_t>(ceil_div(row_subtiles, tile_subtiles)), 8};
  return {raster, static_cast<std::uint32_t>(row_subtiles), blocks};
}

/// One pass over k: `subtiles` of a tile, of one block row.
struct BlockPass {
  std::int32_t block_row;      // of the output
  std::int32_t first_subtile;  // SDD: counted through all blocks; DSD: of the output's columns
  std::int32_t subtiles;
  std::int32_t first_entry;  // DSD: of its block row
  std::int32_t steps;        // of box_side along k
};

/// The pass that begins `done` subtiles into the tile.
DROPLESS_HOST_DEVICE inline BlockPass block_pass(const BlockProduct& product, const ScheduledTile& tile,
                                                 std::int32_t done) {
  const std::int32_t in_block = product.block / box_side;
  BlockPass pass{};
  pass.first_subtile = static_cast<std::int32_t>(tile.first_subtile) + done;
  pass.subtiles = static_cast<std::int32_t>(tile.subtiles) - done;
  if (product.sparse_output) {
    pass.block_row = product.row_indices[pass.first_subtile / in_block];
    for (std::int32_t i = 1; i < pass.subtiles; ++i)
      if (product.row_indices[(pass.first_subtile + i) / in_block] != pass.block_row) pass.subtiles = i;
    pass.steps = static_cast<std::int32_t>(ceil_div(product.depth, box_side));
  } else {
    pass.block_row = static_cast<std::int32_t>(tile.row_tile);
    pass.first_entry = product.offsets[pass.block_row];
    pass.steps = (product.offsets[pass.block_row + 1] - pass.first_entry) * in_block;
  }
  return pass;
}

/// First column of the product that a subtile of the pass computes.
DROPLESS_HOST_DEVICE inline std::int32_t subtile_column(const BlockProduct& product, const BlockPass& pass,
                                                        std::int32_t subtile) {
  const std::int32_t in_block = product.block / box_side, index = pass.first_subtile + subtile;
  if (!product.sparse_output) return index * box_side;
  return product.column_indices[index / in_block] * product.block + index % in_block * box_side;
}

/// The boxes of one step: k of the right operand, and the first of the block row's boxes of the left one.
struct BlockPassStep {
  std::int32_t right_k;
  std::int32_t left_row, left_k, left_block;
};
DROPLESS_HOST_DEVICE inline BlockPassStep block_pass_step(const BlockProduct& product, const BlockPass& pass,
                                                          std::int32_t step) {
  if (product.sparse_output) return {step * box_side, pass.block_row * product.block, step * box_side, 0};
  const std::int32_t in_block = product.block / box_side, entry = pass.first_entry + step / in_block;
  const std::int32_t k = step % in_block * box_side;
  return {product.entry_columns[entry] * product.block + k, 0, k,
          product.entry_blocks == nullptr ? entry : product.entry_blocks[entry]};
}

/// The box of an operand at (d, k), of the matrix `matrix` of its stack.
DROPLESS_HOST_DEVICE constexpr Box operand_box(bool k_inner, std::int32_t d, std::int32_t k,
                                               std::int32_t matrix) {
  return k_inner ? Box{{k, d, matrix}} : Box{{d, k, matrix}};
}

/// The box of the output that holds 64 rows of the block row, from row 64 `part`, of one subtile.
DROPLESS_HOST_DEVICE inline Box out_box(const BlockProduct& product, const BlockPass& pass,
                                        std::int32_t subtile, std::int32_t part) {
  const std::int32_t in_block = product.block / box_side, index = pass.first_subtile + subtile;
  if (product.sparse_output) return {{index % in_block * box_side, part * box_side, index / in_block}};
  const std::int32_t row = pass.block_row * product.block + part * box_side, column = index * box_side;
  return product.out.n_inner ? Box{{column, row, 0}} : Box{{row, column, 0}};
}

}  // namespace dropless::sm90
