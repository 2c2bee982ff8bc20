// Random test data, the same on every machine: values and block-sparse patterns.
#pragma once
#include <cstdint>
#include <random>
#include <vector>

#include "dropless/block_sparse_reference.hpp"

namespace dropless::test {

/// `count` values, uniform in [-1, 1) in steps of 2^-23.
template <class T>
std::vector<T> random_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values)
    value = static_cast<T>(static_cast<double>(generator() >> 8) * (1.0 / (1 << 23)) - 1.0);
  return values;
}

/// A pattern in which each block is absent with probability `sparsity`.
inline BlockTopology random_pattern(std::int64_t block, std::int64_t block_rows, std::int64_t block_columns,
                                    double sparsity, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<std::int32_t> offsets{0}, columns;
  for (std::int64_t row = 0; row < block_rows; ++row) {
    for (std::int32_t column = 0; column < block_columns; ++column)
      if (static_cast<double>(generator()) >= sparsity * 4294967296.0) columns.push_back(column);
    offsets.push_back(static_cast<std::int32_t>(columns.size()));
  }
  return topology_of_pattern(block, block_columns, std::move(offsets), std::move(columns));
}

}  // namespace dropless::test
