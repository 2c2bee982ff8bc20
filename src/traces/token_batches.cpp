// The rows are counted as those of one batch are; the lowest expert of each takes a second look at them.
#include "traces/token_batches.hpp"

#include <algorithm>
#include <cstring>

#include "traces/id_runs.hpp"
#include "vector_clones.hpp"

namespace dropless::traces {
namespace {

template <class Id>
void count_lowest(const Id* ids, std::int64_t rows, std::int64_t ids_a_row, std::int64_t* tokens) {
  for (const Id* row = ids; row != ids + rows * ids_a_row; row += ids_a_row)
    ++tokens[*std::min_element(row, row + ids_a_row)];
}

/// Rows of eight bytes, eight rows at a time.
DROPLESS_VECTOR_CLONES
void count_lowest_of_8(const std::uint8_t* ids, std::int64_t rows, std::int64_t* tokens) {
  constexpr int rows_at_once = 8;
  typedef std::uint64_t Rows __attribute__((vector_size(8 * rows_at_once)));
  typedef std::uint8_t Bytes __attribute__((vector_size(8 * rows_at_once)));
  for (; rows >= rows_at_once; rows -= rows_at_once, ids += 8 * rows_at_once) {
    Rows row;
    std::memcpy(&row, ids, sizeof row);
    for (const int shift : {32, 16, 8}) {
      const Bytes here = (Bytes)row, there = (Bytes)(row >> shift);
      row = (Rows)(here < there ? here : there);
    }
    for (int i = 0; i < rows_at_once; ++i) ++tokens[row[i] & 255];
  }
  count_lowest(ids, rows, 8, tokens);
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
    if (rows.columns == 8)
      count_lowest_of_8(bytes, rows.rows, lowest_expert.data());
    else
      count_lowest(bytes, rows.rows, rows.columns, lowest_expert.data());
    return true;
  }
  thread_local std::vector<std::int64_t> ids;
  ids.resize(static_cast<std::size_t>(rows.rows * rows.columns));
  read_integers(format, rows, ids.data());
  count_lowest(ids.data(), rows.rows, rows.columns, lowest_expert.data());
  return true;
}

}  // namespace dropless::traces
