// The block-sparse structure over a blocked row layout: the arrays that block-sparse kernels in the
// MegaBlocks style read, in closed form (no sort), and the bytes they take.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/row_layout.hpp"

namespace dropless {

/// Block-sparse structure of a [scheduled_rows, sum of d_ff] matrix whose non-zero blocks are, for the rows
/// of expert x, exactly the columns of expert x. Blocks are `block` x `block`; block q's values are
/// values[q], row-major. All indices are int32; a structure that needs more is refused with an Error.
struct BlockTopology {
  std::int64_t block = 0;
  std::int64_t block_rows = 0;     ///< scheduled rows / block
  std::int64_t block_columns = 0;  ///< sum of d_ff / block
  std::int64_t nonzero_blocks = 0;
  std::vector<std::int32_t> offsets;         ///< [block_rows + 1] first block of each block row
  std::vector<std::int32_t> row_indices;     ///< [nonzero_blocks] block row of each block
  std::vector<std::int32_t> column_indices;  ///< [nonzero_blocks] block column of each block
  /// The transposed view: blocks in order of block column.
  std::vector<std::int32_t> offsets_transposed;  ///< [block_columns + 1]
  std::vector<std::int32_t>
      column_indices_transposed;  ///< [nonzero_blocks] block row of each transposed entry
  std::vector<std::int32_t> block_offsets_transposed;  ///< [nonzero_blocks] its index q in block order

  /// Bytes of the arrays held here.
  std::int64_t metadata_bytes() const;
  /// Bytes of the non-zero values with elements of `bytes_per_element`.
  std::int64_t value_bytes(std::int64_t bytes_per_element) const;
};

/// The topology over a layout whose block is 16, 32, 64 or 128. `d_ff` holds one width for all experts or one
/// each; a width that the block does not divide throws Error (the packed layout takes any width).
BlockTopology block_topology(const RowLayout& layout, ArrayView<const std::int64_t> d_ff);

/// Each expert's width in blocks, from one width for all experts or one each. Throws Error for a block other
/// than 16, 32, 64 or 128, and for a width that the block does not divide.
std::vector<std::int64_t> widths_in_blocks(ArrayView<const std::int64_t> d_ff, std::int64_t experts,
                                           std::int64_t block);

/// MegaBlocks' own metadata bytes: int16 row, column and transposed indices, int32 for the rest (MegaBlocks
/// 0.10).
std::int64_t megablocks_topology_bytes(std::int64_t nonzero_blocks, std::int64_t block_rows,
                                       std::int64_t block_columns);  ///< 10 nnz + 4 (R + C + 2)
std::int64_t megablocks_routing_bytes(std::int64_t assignments, std::int64_t experts);  ///< 12 n + 16 E

}  // namespace dropless
