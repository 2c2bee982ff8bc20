// The batches that one worker has begun to count.
#pragma once
#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "dropless/array_view.hpp"
#include "traces/token_batches.hpp"

namespace dropless::traces {

/// The counts of batches that are not delivered yet, each in a slot of its own.
struct OpenBatches {
  std::int64_t experts = 0;
  std::vector<std::int64_t> rows;  // [slot][experts]
  std::vector<std::int64_t> tokens, unrouted, duplicate_rows;
  std::vector<std::int64_t> number;  // of the batch in a slot that takes one after another, or -1
  DistinctTokens alike;              // the last run of tokens that were taken together

  void reset(std::int64_t slots, std::int64_t expert_count) {
    experts = expert_count;
    const auto size = static_cast<std::size_t>(slots);
    rows.assign(size * static_cast<std::size_t>(experts), 0);
    tokens.assign(size, 0);
    unrouted.assign(size, 0);
    duplicate_rows.assign(size, 0);
    number.assign(size, -1);
  }

  void clear(std::size_t slot) {
    const ArrayView<std::int64_t> counts = rows_of(slot);
    std::fill(counts.begin(), counts.end(), 0);
    tokens[slot] = unrouted[slot] = duplicate_rows[slot] = 0;
    number[slot] = -1;
  }

  ArrayView<std::int64_t> rows_of(std::size_t batch) {
    const auto size = static_cast<std::size_t>(experts);
    return {rows.data() + batch * size, size};
  }

  void add(const OpenBatches& other) {
    const auto sum = [](std::vector<std::int64_t>& to, const std::vector<std::int64_t>& from) {
      std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
    };
    sum(rows, other.rows);
    sum(tokens, other.tokens);
    sum(unrouted, other.unrouted);
    sum(duplicate_rows, other.duplicate_rows);
  }
};

}  // namespace dropless::traces
