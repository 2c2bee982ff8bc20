// The rows are counted as those of one batch are; the lowest expert of each takes a second look at them.
#include "traces/token_batches.hpp"

#include <algorithm>

#include "traces/id_runs.hpp"

namespace dropless::traces {
namespace {

/// `columns` is the number of ids a row where the compiler is to know it, else 0.
template <int columns, class Id>
void count_lowest(const Id* ids, std::int64_t rows, std::int64_t ids_a_row, std::int64_t* tokens) {
  if (columns > 0) ids_a_row = columns;
  for (const Id* row = ids; row != ids + rows * ids_a_row; row += ids_a_row) {
    Id lowest = row[0];
    for (std::int64_t slot = 1; slot < ids_a_row; ++slot) lowest = std::min(lowest, row[slot]);
    ++tokens[lowest];
  }
}

}  // namespace

bool DistinctTokens::count(const NumberFormat& format, const NumberTable& rows, std::int64_t experts) {
  rows_per_expert.assign(static_cast<std::size_t>(experts), 0);
  lowest_expert.assign(rows_per_expert.size(), 0);
  BadNumber bad;
  const RunFacts facts = count_ids(format, rows, experts, rows_per_expert.data(), bad);
  if (bad.index >= 0 || facts.duplicate_rows > 0 || facts.unrouted > 0) return false;
  if (is_dense_bytes(format, rows)) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.first);
    const auto count = rows.columns == 8   ? count_lowest<8, std::uint8_t>
                       : rows.columns == 4 ? count_lowest<4, std::uint8_t>
                                           : count_lowest<0, std::uint8_t>;
    count(bytes, rows.rows, rows.columns, lowest_expert.data());
    return true;
  }
  thread_local std::vector<std::int64_t> ids;
  ids.resize(static_cast<std::size_t>(rows.rows * rows.columns));
  read_integers(format, rows, ids.data());
  count_lowest<0>(ids.data(), rows.rows, rows.columns, lowest_expert.data());
  return true;
}

}  // namespace dropless::traces
