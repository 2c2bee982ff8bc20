// Bytes in rows without gaps go to the fast counting loops as they lie; everything else is turned into
// integers, a chunk at a time.
#include "traces/id_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace dropless::traces {
namespace {

constexpr std::int64_t chunk_numbers = 8192;

/// Calls use(chunk, first_number) with tables of at most chunk_numbers numbers (or one row).
template <class Use>
void for_each_chunk(const NumberFormat& format, const NumberTable& rows, Use use) {
  const std::int64_t step =
      std::max<std::int64_t>(1, chunk_numbers / std::max<std::int64_t>(1, rows.columns));
  for (std::int64_t row = 0; row < rows.rows; row += step) {
    NumberTable chunk = rows;
    chunk.first += row * rows.row_stride * format.bytes;
    chunk.rows = std::min(step, rows.rows - row);
    if (!use(chunk, row * rows.columns)) return;
  }
}

const std::byte* number_at(const NumberFormat& format, const NumberTable& rows, std::int64_t index) {
  const std::int64_t row = index / rows.columns, column = index % rows.columns;
  return rows.first + (row * rows.row_stride + column * rows.column_stride) * format.bytes;
}

/// Reads a chunk as integers; where one is none, says so in `bad`, with `what` it should have been.
bool integers_of(const NumberFormat& format, const NumberTable& chunk, std::int64_t first_number,
                 const char* what, std::vector<std::int64_t>& numbers, BadNumber& bad) {
  numbers.resize(static_cast<std::size_t>(chunk.rows * chunk.columns));
  const std::int64_t wrong = read_integers(format, chunk, numbers.data());
  if (wrong < 0) return true;
  bad = {first_number + wrong,
         fmt::format("{} is no {}", number_text(format, number_at(format, chunk, wrong)), what)};
  return false;
}

void merge(RunFacts& facts, const RunFacts& more) {
  facts.unrouted += more.unrouted;
  facts.duplicate_rows += more.duplicate_rows;
  facts.repeats_one &= more.repeats_one;
}

}  // namespace

std::string no_such_expert(std::int64_t id, std::int64_t experts) {
  return fmt::format("expert id {} with {} experts{}", id, experts,
                     id == experts ? " (padding is written as -1)" : "");
}

RunFacts count_ids(const NumberFormat& format, const NumberTable& rows, std::int64_t experts,
                   std::int64_t* rows_per_expert, BadNumber& bad) {
  thread_local std::vector<std::int64_t> numbers;
  thread_local std::vector<std::uint8_t> bytes;
  thread_local std::vector<std::int32_t> wide;
  RunFacts facts;
  const auto count = [&](const auto* ids, std::int64_t tokens, std::int64_t first_number) {
    const RunFacts more = count_rows(ids, tokens, rows.columns, experts, rows_per_expert);
    merge(facts, more);
    if (more.bad_id < 0) return true;
    bad = {first_number + more.bad_id, no_such_expert(ids[more.bad_id], experts)};
    return false;
  };
  if (is_dense_bytes(format, rows)) {
    count(reinterpret_cast<const std::uint8_t*>(rows.first), rows.rows, 0);
    return facts;
  }
  for_each_chunk(format, rows, [&](const NumberTable& chunk, std::int64_t first_number) {
    const auto size = static_cast<std::size_t>(chunk.rows * chunk.columns);
    if (format.is_byte()) {
      bytes.resize(size);
      read_bytes(chunk, bytes.data());
      return count(bytes.data(), chunk.rows, first_number);
    }
    if (!integers_of(format, chunk, first_number, "expert id", numbers, bad)) return false;
    std::int64_t low = 0, high = 0;
    for (const std::int64_t number : numbers) {
      low = std::min(low, number);
      high = std::max(high, number);
    }
    if (low >= 0 && high < 256) {
      bytes.resize(size);
      std::transform(numbers.begin(), numbers.end(), bytes.begin(),
                     [](std::int64_t number) { return static_cast<std::uint8_t>(number); });
      return count(bytes.data(), chunk.rows, first_number);
    }
    if (high >= experts) {
      const auto wrong = std::find_if(numbers.begin(), numbers.end(), [&](auto id) { return id >= experts; });
      bad = {first_number + (wrong - numbers.begin()), no_such_expert(*wrong, experts)};
      return false;
    }
    wide.resize(size);
    std::transform(numbers.begin(), numbers.end(), wide.begin(), [](std::int64_t number) {
      return static_cast<std::int32_t>(std::max<std::int64_t>(number, -1));
    });
    return count(wide.data(), chunk.rows, first_number);
  });
  return facts;
}

void add_counts(const NumberFormat& format, const NumberTable& rows, std::int64_t* rows_per_expert,
                BadNumber& bad) {
  thread_local std::vector<std::int64_t> numbers;
  for_each_chunk(format, rows, [&](const NumberTable& chunk, std::int64_t first_number) {
    if (!integers_of(format, chunk, first_number, "whole count", numbers, bad)) return false;
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::int64_t& sum = rows_per_expert[static_cast<std::int64_t>(i) % rows.columns];
      if (numbers[i] < 0)
        bad.reason = fmt::format("the count {} is negative", numbers[i]);
      else if (numbers[i] > std::numeric_limits<std::int64_t>::max() - sum)
        bad.reason = "the sum of the counts passes 2^63";
      if (!bad.reason.empty()) {
        bad.index = first_number + static_cast<std::int64_t>(i);
        return false;
      }
      sum += numbers[i];
    }
    return true;
  });
}

std::int64_t largest_id(const NumberFormat& format, const NumberTable& rows, BadNumber& bad) {
  thread_local std::vector<std::int64_t> numbers;
  if (is_dense_bytes(format, rows) && rows.rows > 0)
    return largest_byte(reinterpret_cast<const std::uint8_t*>(rows.first), rows.rows * rows.columns);
  std::int64_t largest = -1;
  for_each_chunk(format, rows, [&](const NumberTable& chunk, std::int64_t first_number) {
    if (!integers_of(format, chunk, first_number, "expert id", numbers, bad)) return false;
    for (const std::int64_t number : numbers) largest = std::max(largest, number);
    return true;
  });
  return largest;
}

}  // namespace dropless::traces
