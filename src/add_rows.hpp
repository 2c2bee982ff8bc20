// Rows per expert added to rows per expert, which happens several times a batch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "dropless/array_view.hpp"

namespace dropless {

/// sums[e] += rows[e], both [experts].
void add_rows(std::int64_t* sums, const std::int64_t* rows, std::size_t experts);

/// The same; `sums` may still be empty.
inline void add_rows(std::vector<std::int64_t>& sums, ArrayView<const std::int64_t> rows) {
  if (sums.size() != rows.size()) sums.resize(rows.size());
  add_rows(sums.data(), rows.data(), rows.size());
}

}  // namespace dropless
