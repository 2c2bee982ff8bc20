// How the Hopper kernel cuts a block-sparse product into passes over k, and which boxes each pass loads and
// stores: plain index arithmetic that the CPU tests.
//
// Columns of the output are wgmma's M, rows its N. A tile is up to four subtiles of 64 columns by 128 rows:
// one block row of blocks of 128, two of blocks of 64. Of a sparse output it is as many blocks that follow
// each other, and only where two block rows are alike the same columns of both. Alike means that each has its
// blocks side by side, in the same columns, as the block rows of one expert have; then one pass serves both,
// and a block of 64 costs hardly more than its part of one of 128. What is not alike takes a pass for each
// block row.
#pragma once
#include "block_sparse_plan.hpp"
#include "sm90/tile_schedule.hpp"

namespace dropless::sm90 {

constexpr int box_side = 64;  // of every box, rows and columns
constexpr std::int32_t most_subtiles = tile_subtiles;

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

constexpr int tile_rows = 128;

/// A number that is a power of two, so that the one thread which loads need not divide.
struct PowerOfTwo {
  std::int32_t exponent;
  DROPLESS_HOST_DEVICE constexpr std::int32_t value() const { return 1 << exponent; }
  DROPLESS_HOST_DEVICE constexpr std::int32_t quotient(std::int32_t of) const { return of >> exponent; }
  DROPLESS_HOST_DEVICE constexpr std::int32_t remainder(std::int32_t of) const { return of & (value() - 1); }
};

/// Boxes along the side of a block: 1 or 2.
DROPLESS_HOST_DEVICE constexpr PowerOfTwo boxes_in_block(const BlockProduct& product) {
  return {product.block == 128};
}
/// Block rows of a tile: 2 or 1.
DROPLESS_HOST_DEVICE constexpr PowerOfTwo rows_in_tile(const BlockProduct& product) {
  return {product.block != 128};
}
/// Blocks of a whole tile of a sparse output: 8 or 2.
DROPLESS_HOST_DEVICE constexpr PowerOfTwo blocks_in_tile(const BlockProduct& product) {
  return {product.block == 128 ? 1 : 3};
}

/// Block rows that exist, and blocks of a sparse output.
DROPLESS_HOST_DEVICE inline std::int32_t existing_block_rows(const BlockProduct& product) {
  return product.counts != nullptr ? product.counts->block_rows
                                   : static_cast<std::int32_t>(product.rows / product.block);
}
DROPLESS_HOST_DEVICE inline std::int32_t existing_blocks(const BlockProduct& product) {
  return product.counts != nullptr ? product.counts->nonzero_blocks
                                   : static_cast<std::int32_t>(product.nonzero_blocks);
}

constexpr std::int32_t raster_rows = 8;  // row tiles that neighbouring thread blocks share columns over

/// The tiles of the product, by `blocks` thread blocks. A sparse output is one row tile of all its blocks.
DROPLESS_HOST_DEVICE inline TileSchedule block_schedule(const BlockProduct& product, std::uint32_t blocks) {
  std::int64_t row_tiles = 1, subtiles = ceil_div(product.columns, box_side);
  if (product.sparse_output)
    subtiles = ceil_div(static_cast<std::int64_t>(existing_blocks(product)) * boxes_in_block(product).value(),
                        rows_in_tile(product).value());
  else
    row_tiles = ceil_div(existing_block_rows(product), rows_in_tile(product).value());
  const TileRaster raster{static_cast<std::uint32_t>(row_tiles),
                          static_cast<std::uint32_t>(ceil_div(subtiles, most_subtiles)),
                          static_cast<std::uint32_t>(raster_rows)};
  return {raster, static_cast<std::uint32_t>(subtiles), blocks};
}

/// The place of a sparse output's tile: by block rows as the blocks lie, but where eight row tiles have
/// equally many whole tiles, all eight of one column before the next, since those share their part of the
/// right operand.
DROPLESS_HOST_DEVICE inline std::int32_t rastered_tile(const BlockProduct& product, std::int32_t tile) {
  if (product.offsets == nullptr) return tile;
  const PowerOfTwo in_tile = blocks_in_tile(product);
  const std::int32_t rows = rows_in_tile(product).value(), group_rows = raster_rows * rows;
  const std::int32_t row = product.row_indices[tile * in_tile.value()];
  const std::int32_t first_row = row & ~(group_rows - 1);
  if (first_row + group_rows > existing_block_rows(product)) return tile;
  const std::int32_t begin = product.offsets[first_row], blocks = product.offsets[first_row + rows] - begin;
  bool even = in_tile.remainder(begin) == 0 && in_tile.remainder(blocks) == 0;
  for (std::int32_t i = 2; i <= raster_rows; ++i)
    even &= product.offsets[first_row + i * rows] - begin == i * blocks;
  if (!even) return tile;
  const std::int32_t first = in_tile.quotient(begin), place = tile - first;
  return first + place % raster_rows * in_tile.quotient(blocks) + place / raster_rows;
}

/// Whether block rows `row` and row + 1 have the same columns, side by side. `columns`: of each entry.
DROPLESS_HOST_DEVICE inline bool rows_alike(const std::int32_t* offsets, const std::int32_t* columns,
                                            std::int32_t row) {
  const std::int32_t begin = offsets[row], middle = offsets[row + 1], end = offsets[row + 2];
  const std::int32_t length = middle - begin;
  if (end - middle != length) return false;
  return length == 0 ||
         (columns[begin] == columns[middle] && columns[middle - 1] - columns[begin] == length - 1 &&
          columns[end - 1] - columns[middle] == length - 1);
}

/// A tile or piece of one. It has `cells` cells, each 64 columns of one block row; a pass takes some of them.
struct CellTile {
  std::int32_t block_row;  // the first; unused where a sparse output's block rows are not alike
  std::int32_t first;      // DSD: subtile of the output's columns. SDD: cell, counted through all blocks
  std::int32_t subtiles;   // of one block row
  std::int32_t cells;
  bool alike;
};

DROPLESS_HOST_DEVICE inline CellTile cell_tile(const BlockProduct& product, const ScheduledTile& scheduled) {
  const std::int32_t rows = rows_in_tile(product).value(), all_rows = existing_block_rows(product);
  const auto first = static_cast<std::int32_t>(scheduled.first_subtile);
  CellTile tile{0, first, static_cast<std::int32_t>(scheduled.subtiles), 0, false};
  if (tile.subtiles == 0) return tile;
  if (!product.sparse_output) {
    tile.block_row = static_cast<std::int32_t>(scheduled.row_tile) * rows;
    const bool whole = tile.block_row + rows <= all_rows;
    tile.cells = whole ? tile.subtiles * rows : tile.subtiles;
    tile.alike = rows == 2 && whole && rows_alike(product.offsets, product.entry_columns, tile.block_row);
    return tile;
  }
  const PowerOfTwo in_tile = blocks_in_tile(product);
  const std::int32_t index = rastered_tile(product, first / most_subtiles), piece = first % most_subtiles;
  tile.first = (index * most_subtiles + piece) * rows;
  const std::int32_t cells_left = existing_blocks(product) * boxes_in_block(product).value() - tile.first;
  tile.cells = cells_left < tile.subtiles * rows ? cells_left : tile.subtiles * rows;
  if (rows == 1 || product.offsets == nullptr) return tile;
  tile.block_row = product.row_indices[index * in_tile.value()] & ~(rows - 1);
  if (tile.block_row + rows > all_rows) return tile;
  const std::int32_t begin = product.offsets[tile.block_row],
                     blocks = product.offsets[tile.block_row + rows] - begin;
  tile.alike = in_tile.remainder(begin) == 0 && in_tile.remainder(blocks) == 0 &&
               rows_alike(product.offsets, product.column_indices, tile.block_row);
  if (tile.alike) tile.first = begin + (index * in_tile.value() - begin) / 2 + piece;
  return tile;
}

/// One pass over k: `subtiles` subtiles of 64 columns by `block_rows` block rows.
struct BlockPass {
  std::int32_t block_row, block_rows;
  std::int32_t first_subtile;  // SDD: counted through all blocks; DSD: of the output's columns
  std::int32_t subtiles;
  std::int32_t first_entry;   // DSD: of its first block row
  std::int32_t row_distance;  // entries (SDD: blocks) from one of two block rows to the other
  std::int32_t steps;         // of box_side along k
};

/// The pass that begins `done` cells into the tile.
DROPLESS_HOST_DEVICE inline BlockPass block_pass(const BlockProduct& product, const CellTile& tile,
                                                 std::int32_t done) {
  const PowerOfTwo in_block = boxes_in_block(product);
  BlockPass pass{tile.block_row, 1, tile.first, tile.subtiles, 0, 0, 0};
  if (tile.alike) {
    pass.block_rows = 2;
    pass.row_distance = product.offsets[tile.block_row + 1] - product.offsets[tile.block_row];
  } else if (product.sparse_output) {
    pass.first_subtile += done;
    const std::int32_t left = tile.cells - done;
    pass.subtiles = left < most_subtiles ? left : most_subtiles;
    pass.block_row = product.row_indices[in_block.quotient(pass.first_subtile)];
    for (std::int32_t i = 1; i < pass.subtiles; ++i)
      if (product.row_indices[in_block.quotient(pass.first_subtile + i)] != pass.block_row) pass.subtiles = i;
  } else {
    pass.block_row += done >= tile.subtiles;
  }
  if (product.sparse_output) {
    pass.steps = static_cast<std::int32_t>(ceil_div(product.depth, box_side));
  } else {
    pass.first_entry = product.offsets[pass.block_row];
    pass.steps = (product.offsets[pass.block_row + 1] - pass.first_entry) * in_block.value();
  }
  return pass;
}

/// Boxes of 64 rows that a pass's block rows have.
DROPLESS_HOST_DEVICE constexpr std::int32_t row_parts(const BlockProduct& product, const BlockPass& pass) {
  return pass.block_rows * boxes_in_block(product).value();
}

/// First column of the product that a subtile of the pass computes.
DROPLESS_HOST_DEVICE inline std::int32_t subtile_column(const BlockProduct& product, const BlockPass& pass,
                                                        std::int32_t subtile) {
  const PowerOfTwo in_block = boxes_in_block(product);
  const std::int32_t index = pass.first_subtile + subtile;
  if (!product.sparse_output) return index * box_side;
  return product.column_indices[in_block.quotient(index)] * product.block +
         in_block.remainder(index) * box_side;
}

/// What the arrays say of a step in DSD: the block column of its entry, and the blocks of the pass's block
/// rows there. Apart from the boxes made of it, so that the arrays can be read a step ahead.
struct PassEntry {
  std::int32_t column, block, second_block;
};
DROPLESS_HOST_DEVICE inline PassEntry pass_entry(const BlockProduct& product, const BlockPass& pass,
                                                 std::int32_t step) {
  if (product.sparse_output) return {};
  const std::int32_t entry = pass.first_entry + boxes_in_block(product).quotient(step);
  const std::int32_t second = entry + pass.row_distance;
  const std::int32_t column = product.entry_columns[entry];
  if (product.entry_blocks == nullptr) return {column, entry, second};
  return {column, product.entry_blocks[entry], product.entry_blocks[second]};
}

/// The box of an operand at (d, k), of the matrix `matrix` of its stack.
DROPLESS_HOST_DEVICE constexpr Box operand_box(bool k_inner, std::int32_t d, std::int32_t k,
                                               std::int32_t matrix) {
  return k_inner ? Box{{k, d, matrix}} : Box{{d, k, matrix}};
}

/// The right operand's box of one step, 64 columns from `column`.
DROPLESS_HOST_DEVICE constexpr Box right_box(const BlockProduct& product, bool k_inner,
                                             const PassEntry& entry, std::int32_t step, std::int32_t column) {
  const std::int32_t k = product.sparse_output ? step * box_side
                                               : entry.column * product.block +
                                                     boxes_in_block(product).remainder(step) * box_side;
  return operand_box(k_inner, column, k, 0);
}

/// The left operand's box of one step: 64 rows of the pass's block rows, from row 64 `part`.
DROPLESS_HOST_DEVICE constexpr Box left_box(const BlockProduct& product, bool k_inner, const BlockPass& pass,
                                            const PassEntry& entry, std::int32_t step, std::int32_t part) {
  if (product.sparse_output)
    return operand_box(k_inner, pass.block_row * product.block + part * box_side, step * box_side, 0);
  const PowerOfTwo in_block = boxes_in_block(product);
  return operand_box(k_inner, in_block.remainder(part) * box_side, in_block.remainder(step) * box_side,
                     in_block.quotient(part) == 0 ? entry.block : entry.second_block);
}

/// The output's box of one subtile: 64 rows of the pass's block rows, from row 64 `part`.
DROPLESS_HOST_DEVICE inline Box out_box(const BlockProduct& product, const BlockPass& pass,
                                        std::int32_t subtile, std::int32_t part) {
  const PowerOfTwo in_block = boxes_in_block(product);
  const std::int32_t index = pass.first_subtile + subtile;
  if (product.sparse_output)
    return {{in_block.remainder(index) * box_side, in_block.remainder(part) * box_side,
             in_block.quotient(index) + in_block.quotient(part) * pass.row_distance}};
  const std::int32_t row = pass.block_row * product.block + part * box_side, column = index * box_side;
  return product.out.n_inner ? Box{{column, row, 0}} : Box{{row, column, 0}};
}

}  // namespace dropless::sm90
