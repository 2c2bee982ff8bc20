// What a block-sparse product computes, tile by tile and step by step, as plain index arithmetic that the CPU
// tests. Two forms cover the three verbs and every transpose: blocks of an output from two dense operands
// (SDD), and a dense output from a block-sparse left operand and a dense right one (DSD; DDS is its
// transpose).
//
// An operand is a matrix over (d, k): d is m for the left one and n for the right one. k is walked in steps
// of `step_depth`, ascending.
#pragma once
#include "dropless/block_sparse.hpp"
#include "dropless/integer_math.hpp"
#include "mma_layout.hpp"

namespace dropless {

/// Element (d, k) is at data[offset(d, k)].
struct ProductOperand {
  const void* data = nullptr;
  std::int64_t leading_dimension = 0;
  bool k_inner = true;     ///< k is contiguous in memory; else d is
  bool by_chunks = false;  ///< rows begin at multiples of 16 bytes

  DROPLESS_HOST_DEVICE constexpr std::int64_t offset(std::int64_t d, std::int64_t k) const {
    return k_inner ? d * leading_dimension + k : k * leading_dimension + d;
  }
};

/// Element (m, n) is at data[offset(m, n)].
struct ProductOutput {
  void* data = nullptr;
  std::int64_t leading_dimension = 0;
  bool n_inner = true;
  bool by_chunks = false;

  DROPLESS_HOST_DEVICE constexpr std::int64_t offset(std::int64_t m, std::int64_t n) const {
    return n_inner ? m * leading_dimension + n : n * leading_dimension + m;
  }
};

struct BlockProduct {
  ElementType type = ElementType::bf16;
  std::int32_t block = 128;
  bool sparse_output = false;  ///< SDD; else DSD
  ProductOperand left, right;  ///< a block-sparse operand or output describes one block of its values
  ProductOutput out;
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< of the whole product: m, n and k
  std::int64_t nonzero_blocks = 0;
  const std::int32_t* row_indices = nullptr;     ///< SDD: block row of each block
  const std::int32_t* column_indices = nullptr;  ///< SDD: block column of each block
  const std::int32_t* offsets = nullptr;         ///< first entry of each block row; SDD: may be null
  const std::int32_t* entry_columns = nullptr;   ///< DSD: block column of each entry
  const std::int32_t* entry_blocks = nullptr;    ///< DSD: block of each entry; null: the entry itself
  const BlockCounts* counts = nullptr;           ///< where the output's blocks or rows are bounds
};

/// The tile that one thread block computes: `columns` of its columns exist, all of its rows do.
struct BlockTile {
  std::int64_t left_d, right_d;  ///< where it begins in the operands
  std::int64_t out;              ///< offset of its first element in the output
  std::int64_t first_entry;      ///< DSD: of its block row
  std::int32_t steps;
  std::int32_t columns;
};

/// One step of k: offsets of the tile's first elements in the operands, and how many values of k are left.
struct BlockStep {
  std::int64_t left, right;
  std::int32_t depth_left;
};

/// Tiles of tile_rows x tile_columns that cover the output. tile_rows divides the block; so does
/// tile_columns in SDD.
DROPLESS_HOST_DEVICE constexpr std::int64_t block_tile_count(const BlockProduct& product, int tile_rows,
                                                             int tile_columns) {
  if (product.sparse_output)
    return product.nonzero_blocks * (product.block / tile_rows) * (product.block / tile_columns);
  return product.rows / tile_rows * ceil_div(product.columns, tile_columns);
}

/// Whether the output has tile `index`; a grid over bounds also meets tiles that it has not.
DROPLESS_HOST_DEVICE inline bool block_tile_exists(const BlockProduct& product, std::int64_t index,
                                                   int tile_rows, int tile_columns) {
  if (product.counts == nullptr) return true;
  const std::int64_t block = product.block;
  if (product.sparse_output)
    return index / (block / tile_rows * (block / tile_columns)) < product.counts->nonzero_blocks;
  return index / ceil_div(product.columns, tile_columns) * tile_rows / block < product.counts->block_rows;
}

DROPLESS_HOST_DEVICE inline BlockTile block_tile(const BlockProduct& product, std::int64_t index,
                                                 int tile_rows, int tile_columns, int step_depth) {
  const std::int64_t block = product.block;
  BlockTile tile{};
  if (product.sparse_output) {
    const std::int64_t across = block / tile_columns, tiles = block / tile_rows * across;
    const std::int64_t q = index / tiles, within = index % tiles;
    const std::int64_t m = within / across * tile_rows, n = within % across * tile_columns;
    tile.left_d = product.row_indices[q] * block + m;
    tile.right_d = product.column_indices[q] * block + n;
    tile.out = q * block * block + product.out.offset(m, n);
    tile.steps = static_cast<std::int32_t>(ceil_div(product.depth, step_depth));
    tile.columns = tile_columns;
  } else {
    const std::int64_t across = ceil_div(product.columns, tile_columns);
    const std::int64_t m = index / across * tile_rows, n = index % across * tile_columns;
    const std::int64_t row = m / block, left = product.columns - n;
    tile.left_d = m % block;
    tile.right_d = n;
    tile.out = product.out.offset(m, n);
    tile.first_entry = product.offsets[row];
    tile.steps =
        static_cast<std::int32_t>((product.offsets[row + 1] - tile.first_entry) * (block / step_depth));
    tile.columns = static_cast<std::int32_t>(left < tile_columns ? left : tile_columns);
  }
  return tile;
}

/// Step `step` of a tile; step_depth divides the block in DSD.
DROPLESS_HOST_DEVICE inline BlockStep block_step(const BlockProduct& product, const BlockTile& tile,
                                                 std::int32_t step, int step_depth) {
  if (product.sparse_output) {
    const std::int64_t k = static_cast<std::int64_t>(step) * step_depth, left = product.depth - k;
    return {product.left.offset(tile.left_d, k), product.right.offset(tile.right_d, k),
            static_cast<std::int32_t>(left < step_depth ? left : step_depth)};
  }
  const std::int32_t steps_per_block = product.block / step_depth;
  const std::int64_t entry = tile.first_entry + step / steps_per_block;
  const std::int64_t k = step % steps_per_block * step_depth, block = product.block;
  const std::int64_t q = product.entry_blocks == nullptr ? entry : product.entry_blocks[entry];
  return {q * block * block + product.left.offset(tile.left_d, k),
          product.right.offset(tile.right_d, product.entry_columns[entry] * block + k), step_depth};
}

/// A dense operand: the left one over (m, k), or with `right` the right one over (n, k).
inline ProductOperand dense_operand(const DenseMatrix& matrix, bool right) {
  return {matrix.data, matrix.leading_dimension, matrix.transposed == right,
          moves_by_chunks(matrix.data, matrix.leading_dimension)};
}

inline BlockProduct plan_sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out) {
  // The stored blocks of a transposed output are those of (a b)^T = b^T a^T.
  if (out.transposed) return plan_sdd(transposed(b), transposed(a), transposed(out));
  BlockProduct product;
  product.type = out.type;
  product.block = static_cast<std::int32_t>(out.block);
  product.sparse_output = true;
  product.left = dense_operand(a, false);
  product.right = dense_operand(b, true);
  product.out = {out.values, out.block, true, moves_by_chunks(out.values, out.block)};
  product.rows = out.rows;
  product.columns = out.columns;
  product.depth = a.transposed ? a.rows : a.columns;
  product.nonzero_blocks = out.nonzero_blocks;
  product.offsets = out.offsets;
  product.row_indices = out.row_indices;
  product.column_indices = out.column_indices;
  product.counts = out.counts;
  return product;
}

inline BlockProduct plan_dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out) {
  BlockProduct product;
  product.type = a.type;
  product.block = static_cast<std::int32_t>(a.block);
  product.left = {a.values, a.block, !a.transposed, moves_by_chunks(a.values, a.block)};
  product.right = dense_operand(b, true);
  product.out = {out.data, out.leading_dimension, !out.transposed,
                 moves_by_chunks(out.data, out.leading_dimension)};
  product.rows = out.transposed ? out.columns : out.rows;
  product.columns = out.transposed ? out.rows : out.columns;
  product.depth = a.transposed ? a.rows : a.columns;
  product.nonzero_blocks = a.nonzero_blocks;
  product.offsets = a.transposed ? a.offsets_transposed : a.offsets;
  product.entry_columns = a.transposed ? a.column_indices_transposed : a.column_indices;
  product.entry_blocks = a.transposed ? a.block_offsets_transposed : nullptr;
  product.counts = a.transposed ? nullptr : a.counts;  // every block column exists
  return product;
}

/// out^T = b^T a^T.
inline BlockProduct plan_dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out) {
  return plan_dsd(transposed(b), transposed(a), transposed(out));
}

/// Whether the output has any element.
inline bool has_output(const BlockProduct& product) {
  return product.sparse_output ? product.nonzero_blocks > 0 : product.rows > 0 && product.columns > 0;
}

/// The kernels. The portable ones launch nothing for a product without output.
void launch_tensor_core_blocks(const BlockProduct& product, Stream stream);  ///< bf16 and fp16
void launch_float_blocks(const BlockProduct& product, Stream stream);
/// Whether the Hopper kernel can address these operands.
bool sm90_can_run(const BlockProduct& product);
void launch_sm90(const BlockProduct& product, Stream stream);  ///< a product with output

}  // namespace dropless
