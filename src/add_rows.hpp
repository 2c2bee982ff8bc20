// Rows per expert added to rows per expert.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/array_view.hpp"

namespace dropless {

/// sums[e] += rows[e]; `sums` is [experts] or still empty.
void add_rows(std::vector<std::int64_t>& sums, ArrayView<const std::int64_t> rows);

}  // namespace dropless
