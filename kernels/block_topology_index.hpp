// The closed form of the block-sparse structure, entry by entry: which expert an entry belongs to, and what
// it says. Expert x owns block rows [block_row_begin[x], ...[x + 1]), block columns [block_column_begin[x],
// ...[x
// + 1]) and, in either order of the blocks, the entries [block_begin[x], ...[x + 1]).
#pragma once
#include <cstdint>

#include "tile_list.hpp"

namespace dropless {

/// Three prefix sums over the experts, each [experts + 1].
struct ExpertBlocks {
  std::int32_t experts;
  const std::int32_t* block_row_begin;
  const std::int32_t* block_column_begin;
  const std::int32_t* block_begin;

  DROPLESS_HOST_DEVICE std::int32_t height(std::int32_t x) const {
    return block_row_begin[x + 1] - block_row_begin[x];
  }
  DROPLESS_HOST_DEVICE std::int32_t width(std::int32_t x) const {
    return block_column_begin[x + 1] - block_column_begin[x];
  }
};

/// What the arrays say at entry q: in order of block rows, and in order of block columns.
struct BlockEntry {
  std::int32_t row_index, column_index;
  std::int32_t column_index_transposed, block_offset_transposed;
};

/// Entry q < block_begin[experts].
DROPLESS_HOST_DEVICE inline BlockEntry block_entry(const ExpertBlocks& blocks, std::int32_t q) {
  const std::int32_t x = range_of(blocks.block_begin, blocks.experts, q);
  const std::int32_t height = blocks.height(x), width = blocks.width(x), local = q - blocks.block_begin[x];
  return {blocks.block_row_begin[x] + local / width, blocks.block_column_begin[x] + local % width,
          blocks.block_row_begin[x] + local % height,
          blocks.block_begin[x] + local % height * width + local / height};
}

/// First block of block row r <= block_row_begin[experts].
DROPLESS_HOST_DEVICE inline std::int32_t block_row_offset(const ExpertBlocks& blocks, std::int32_t r) {
  if (r == blocks.block_row_begin[blocks.experts]) return blocks.block_begin[blocks.experts];
  const std::int32_t x = range_of(blocks.block_row_begin, blocks.experts, r);
  return blocks.block_begin[x] + (r - blocks.block_row_begin[x]) * blocks.width(x);
}

/// First transposed entry of block column c <= block_column_begin[experts].
DROPLESS_HOST_DEVICE inline std::int32_t block_column_offset(const ExpertBlocks& blocks, std::int32_t c) {
  if (c == blocks.block_column_begin[blocks.experts]) return blocks.block_begin[blocks.experts];
  const std::int32_t x = range_of(blocks.block_column_begin, blocks.experts, c);
  return blocks.block_begin[x] + (c - blocks.block_column_begin[x]) * blocks.height(x);
}

/// The blocked row of packed row `row`; row_offsets is the packed layout's.
DROPLESS_HOST_DEVICE inline std::int32_t blocked_row(const ExpertBlocks& blocks,
                                                     const std::int32_t* row_offsets, std::int32_t block,
                                                     std::int32_t row) {
  const std::int32_t x = range_of(row_offsets, blocks.experts, row);
  return blocks.block_row_begin[x] * block + (row - row_offsets[x]);
}

/// The packed row of blocked row `row` < block_row_begin[experts] * block, or -1 for a padding row.
DROPLESS_HOST_DEVICE inline std::int32_t packed_row(const ExpertBlocks& blocks,
                                                    const std::int32_t* row_offsets, std::int32_t block,
                                                    std::int32_t row) {
  const std::int32_t x = range_of(blocks.block_row_begin, blocks.experts, row / block);
  const std::int32_t packed = row_offsets[x] + (row - blocks.block_row_begin[x] * block);
  return packed < row_offsets[x + 1] ? packed : -1;
}

}  // namespace dropless
