// Every array of the block-sparse topology written directly from its closed form: expert x owns a rectangle
// of block rows and block columns, so each array is a loop over experts with no sort.
#include "dropless/block_topology.hpp"

#include <algorithm>
#include <numeric>

#include "argument_checks.hpp"
#include "dropless/integer_math.hpp"

namespace dropless {
namespace {

std::int64_t bytes(const std::vector<std::int32_t>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(std::int32_t));
}

/// Refuses row offsets that are not those of the layout's own counts and block: a layout built for one block
/// and used with another would place every later expert wrongly.
void check_row_offsets(const RowLayout& layout) {
  const std::size_t experts = static_cast<std::size_t>(layout.experts);
  if (layout.rows_per_expert.size() != experts || layout.row_offsets.size() != experts + 1)
    throw Error("row_offsets", std::to_string(layout.row_offsets.size()) + " entries",
                "experts + 1 = " + std::to_string(experts + 1));
  std::int64_t offset = 0;
  for (std::size_t e = 0; e <= experts; ++e) {
    if (layout.row_offsets[e] != offset)
      throw Error("row_offsets[" + std::to_string(e) + "]", std::to_string(layout.row_offsets[e]),
                  std::to_string(offset) + ", as rows_per_expert and block " + std::to_string(layout.block) +
                      " give it");
    if (e < experts) offset += round_up(layout.rows_per_expert[e], layout.block);
  }
}

}  // namespace

std::int64_t BlockTopology::metadata_bytes() const {
  return bytes(offsets) + bytes(row_indices) + bytes(column_indices) + bytes(offsets_transposed) +
         bytes(column_indices_transposed) + bytes(block_offsets_transposed);
}

std::int64_t BlockTopology::value_bytes(std::int64_t bytes_per_element) const {
  const std::int64_t elements = checked_product(nonzero_blocks, block * block, "block values");
  return checked_product(elements, bytes_per_element, "bytes of block values");
}

std::vector<std::int64_t> widths_in_blocks(ArrayView<const std::int64_t> d_ff, std::int64_t experts,
                                           std::int64_t block) {
  require_block(block, "block");
  const auto count = static_cast<std::size_t>(experts);
  if (d_ff.size() != 1 && d_ff.size() != count)
    throw Error("d_ff", std::to_string(d_ff.size()) + " widths",
                "one width, or one for each of the " + std::to_string(count) + " experts");
  std::vector<std::int64_t> widths(count);
  for (std::size_t e = 0; e < count; ++e) {
    const std::int64_t width = d_ff[d_ff.size() == 1 ? 0 : e];
    if (width < 1 || width % block != 0)
      throw Error("d_ff of expert " + std::to_string(e), std::to_string(width),
                  "a positive multiple of the block " + std::to_string(block) +
                      " (the packed layout takes any width)");
    widths[e] = width / block;
  }
  return widths;
}

BlockTopology block_topology(const RowLayout& layout, ArrayView<const std::int64_t> d_ff) {
  const std::vector<std::int64_t> widths = widths_in_blocks(d_ff, layout.experts, layout.block);
  check_row_offsets(layout);
  BlockTopology topology;
  topology.block = layout.block;
  topology.block_rows = layout.scheduled_rows / layout.block;
  for (std::size_t x = 0; x < widths.size(); ++x) {
    const std::int64_t rows = (layout.row_offsets[x + 1] - layout.row_offsets[x]) / layout.block;
    topology.block_columns = checked_sum(topology.block_columns, widths[x], "block columns");
    topology.nonzero_blocks = checked_sum(
        topology.nonzero_blocks, checked_product(rows, widths[x], "non-zero blocks"), "non-zero blocks");
  }
  checked_int32(topology.block_rows, "block rows");
  checked_int32(topology.block_columns, "block columns");
  checked_int32(topology.nonzero_blocks, "non-zero blocks");

  topology.offsets.resize(static_cast<std::size_t>(topology.block_rows) + 1);
  topology.offsets_transposed.resize(static_cast<std::size_t>(topology.block_columns) + 1);
  for (auto* indices : {&topology.row_indices, &topology.column_indices, &topology.column_indices_transposed,
                        &topology.block_offsets_transposed})
    indices->resize(static_cast<std::size_t>(topology.nonzero_blocks));

  // Each array is written front to back; expert x adds its rectangle of blocks to all of them.
  auto offset = topology.offsets.begin(), offset_transposed = topology.offsets_transposed.begin();
  auto row_index = topology.row_indices.begin(), column_index = topology.column_indices.begin();
  auto column_index_transposed = topology.column_indices_transposed.begin();
  auto block_offset_transposed = topology.block_offsets_transposed.begin();
  std::int32_t first_block = 0, first_row = 0, first_column = 0;
  for (std::size_t x = 0; x < widths.size(); ++x) {
    const auto end_row = static_cast<std::int32_t>(layout.row_offsets[x + 1] / layout.block);
    const auto width = static_cast<std::int32_t>(widths[x]), rows = end_row - first_row;
    for (std::int32_t i = 0; i < rows; ++i) {
      *offset++ = first_block + i * width;
      row_index = std::fill_n(row_index, width, first_row + i);
      std::iota(column_index, column_index + width, first_column);
      column_index += width;
    }
    for (std::int32_t j = 0; j < width; ++j) {
      *offset_transposed++ = first_block + j * rows;
      for (std::int32_t i = 0; i < rows; ++i) {
        *column_index_transposed++ = first_row + i;
        *block_offset_transposed++ = first_block + i * width + j;
      }
    }
    first_block += rows * width;
    first_row = end_row;
    first_column += width;
  }
  *offset = *offset_transposed = first_block;
  return topology;
}

std::int64_t megablocks_topology_bytes(std::int64_t nonzero_blocks, std::int64_t block_rows,
                                       std::int64_t block_columns) {
  return 10 * nonzero_blocks + 4 * (block_rows + block_columns + 2);
}

std::int64_t megablocks_routing_bytes(std::int64_t assignments, std::int64_t experts) {
  return 12 * assignments + 16 * experts;
}

}  // namespace dropless
