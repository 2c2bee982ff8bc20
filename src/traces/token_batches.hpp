// Counting batches of one token each without ever making a batch of them: a token that names top_k different
// experts schedules the same rows as every other one, but for which experts they are.
#pragma once
#include <cstdint>
#include <vector>

#include "traces/number_format.hpp"

namespace dropless::traces {

/// A run of tokens of top_k different experts each, none of them unrouted.
struct DistinctTokens {
  std::vector<std::int64_t> rows_per_expert;  ///< [experts]
  std::vector<std::int64_t> lowest_expert;    ///< [experts]: tokens whose lowest-numbered expert it is

  /// Takes the next run; false, and of no use, where a row repeats an expert or holds anything but an expert
  /// id in [0, experts).
  bool count(const NumberFormat& format, const NumberTable& rows, std::int64_t experts);
};

}  // namespace dropless::traces
