// The transposed view of any pattern: a counting sort of the blocks by block column, which keeps the order of
// block rows within a column.
#include <algorithm>
#include <string>
#include <utility>

#include "argument_checks.hpp"
#include "dropless/block_sparse_reference.hpp"
#include "dropless/integer_math.hpp"

namespace dropless {
namespace {

void check_pattern(const BlockTopology& topology) {
  require_block(topology.block, "block");
  require_at_least(topology.block_columns, 0, "block_columns");
  const auto& offsets = topology.offsets;
  if (offsets.empty() || offsets.front() != 0 || !std::is_sorted(offsets.begin(), offsets.end()) ||
      static_cast<std::size_t>(offsets.back()) != topology.column_indices.size())
    throw Error("offsets", std::to_string(offsets.size()) + " numbers",
                "an ascending array from 0 to the number of column indices, " +
                    std::to_string(topology.column_indices.size()));
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    std::int64_t previous = -1;
    for (auto q = static_cast<std::size_t>(offsets[row]); q < static_cast<std::size_t>(offsets[row + 1]);
         ++q) {
      const std::int64_t column = topology.column_indices[q];
      if (column <= previous || column >= topology.block_columns)
        throw Error("column_indices[" + std::to_string(q) + "]", std::to_string(column),
                    "a block column above " + std::to_string(previous) + " and below " +
                        std::to_string(topology.block_columns));
      previous = column;
    }
  }
}

}  // namespace

BlockTopology topology_of_pattern(std::int64_t block, std::int64_t block_columns,
                                  std::vector<std::int32_t> offsets,
                                  std::vector<std::int32_t> column_indices) {
  BlockTopology topology;
  topology.block = block;
  topology.block_columns = checked_int32(block_columns, "block_columns");
  topology.offsets = std::move(offsets);
  topology.column_indices = std::move(column_indices);
  check_pattern(topology);
  topology.block_rows = static_cast<std::int64_t>(topology.offsets.size()) - 1;
  topology.nonzero_blocks = topology.offsets.back();

  const std::size_t nonzero = topology.column_indices.size();
  topology.row_indices.resize(nonzero);
  topology.column_indices_transposed.resize(nonzero);
  topology.block_offsets_transposed.resize(nonzero);
  topology.offsets_transposed.assign(static_cast<std::size_t>(block_columns) + 1, 0);
  for (const std::int32_t column : topology.column_indices)
    ++topology.offsets_transposed[static_cast<std::size_t>(column) + 1];
  for (std::size_t column = 0; column < static_cast<std::size_t>(block_columns); ++column)
    topology.offsets_transposed[column + 1] += topology.offsets_transposed[column];
  std::vector<std::int32_t> next(topology.offsets_transposed.begin(), topology.offsets_transposed.end() - 1);
  for (std::int32_t row = 0; row < topology.block_rows; ++row) {
    const auto r = static_cast<std::size_t>(row);
    for (std::int32_t q = topology.offsets[r]; q < topology.offsets[r + 1]; ++q) {
      const auto column = static_cast<std::size_t>(topology.column_indices[static_cast<std::size_t>(q)]);
      const auto entry = static_cast<std::size_t>(next[column]++);
      topology.row_indices[static_cast<std::size_t>(q)] = row;
      topology.column_indices_transposed[entry] = row;
      topology.block_offsets_transposed[entry] = q;
    }
  }
  return topology;
}

}  // namespace dropless
