// Counting batches of one token each without ever making a batch of them: a token that names top_k different
// experts schedules the same rows as every other one, but for which experts they are.
#pragma once
#include <cstdint>
#include <vector>

#include "traces/number_format.hpp"

namespace dropless::traces {

/// Tokens of top_k different experts, none of them unrouted.
struct DistinctTokens {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> rows_per_expert;  ///< [experts], or empty before the first token
  std::vector<std::int64_t> lowest_expert;    ///< [experts]: tokens whose lowest-numbered expert it is

  /// Adds the rows of `rows` and returns true; or adds nothing and returns false, where a row repeats an
  /// expert or holds anything but an expert id in [0, experts).
  bool count(const NumberFormat& format, const NumberTable& rows, std::int64_t experts);
  void add(const DistinctTokens& other);
};

}  // namespace dropless::traces
