// The figures of a report calculated as plainly as possible from rows per expert, with nothing shared with
// the library: loops and formulas as the definitions state them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

/// One batch: rows per expert and tokens.
struct PlainBatch {
  std::vector<std::int64_t> rows;
  std::int64_t tokens = 0;
};

/// [layer][batch]
using PlainTrace = std::vector<std::vector<PlainBatch>>;

struct PlainCost {
  std::int64_t scheduled = 0, launched = 0, kept = 0, added = 0;
};

inline std::int64_t plain_sum(const std::vector<std::int64_t>& rows) {
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) sum += count;
  return sum;
}

inline std::int64_t plain_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline std::int64_t plain_rounded(const std::vector<std::int64_t>& rows, std::int64_t multiple) {
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) sum += plain_up(count, multiple);
  return sum;
}

inline PlainCost plain_capacity(const std::vector<std::int64_t>& rows, std::int64_t capacity, bool padded) {
  PlainCost cost;
  for (const std::int64_t count : rows) cost.kept += std::min(count, capacity);
  cost.scheduled = cost.launched = padded ? static_cast<std::int64_t>(rows.size()) * capacity : cost.kept;
  return cost;
}

/// ScatterMoE's rule as it is stated: tile by tile over the expert of every sorted row.
inline PlainCost plain_flat(const std::vector<std::int64_t>& rows, std::size_t tile) {
  PlainCost cost;
  std::vector<std::int64_t> expert_of_row;
  for (std::size_t e = 0; e < rows.size(); ++e)
    expert_of_row.insert(expert_of_row.end(), static_cast<std::size_t>(rows[e]),
                         static_cast<std::int64_t>(e));
  for (std::size_t begin = 0; begin < expert_of_row.size(); begin += tile) {
    const bool whole = begin + tile <= expert_of_row.size();
    const std::int64_t last =
        whole ? expert_of_row[begin + tile - 1] : static_cast<std::int64_t>(rows.size()) - 1;
    cost.scheduled += static_cast<std::int64_t>(tile) * (last - expert_of_row[begin] + 1);
  }
  cost.launched = cost.scheduled;
  cost.kept = static_cast<std::int64_t>(expert_of_row.size());
  return cost;
}

inline PlainCost plain_token_rounding(const std::vector<std::int64_t>& rows) {
  PlainCost cost;
  for (const std::int64_t count : rows) {
    const auto rounded = 128 * static_cast<std::int64_t>(std::nearbyint(static_cast<double>(count) / 128));
    cost.kept += std::min(count, rounded);
    cost.added += std::max<std::int64_t>(0, rounded - count);
    cost.scheduled += plain_up(rounded, 256);
  }
  cost.launched = cost.scheduled;
  return cost;
}

/// The policies that the comparison covers, by name.
inline std::map<std::string, std::function<PlainCost(const PlainBatch&)>> plain_policies() {
  const auto rounding = [](std::int64_t multiple) {
    return [multiple](const PlainBatch& batch) {
      const std::int64_t scheduled = plain_rounded(batch.rows, multiple);
      return PlainCost{scheduled, scheduled, plain_sum(batch.rows), 0};
    };
  };
  const auto vllm = [rounding](std::int64_t block) {
    return [rounding, block](const PlainBatch& batch) {
      PlainCost cost = rounding(block)(batch);
      const std::int64_t n = plain_sum(batch.rows), experts = static_cast<std::int64_t>(batch.rows.size());
      const std::int64_t bound = n + experts * (block - 1);
      cost.launched = plain_up(n < experts ? std::min(n * block, bound) : bound, block);
      return cost;
    };
  };
  const auto mean = [](const PlainBatch& batch) {
    return static_cast<double>(plain_sum(batch.rows)) / static_cast<double>(batch.rows.size());
  };
  return {
      {"dropless", rounding(16)},
      {"block:64", rounding(64)},
      {"block:128", rounding(128)},
      {"deepgemm", rounding(128)},
      {"align:32", rounding(32)},
      {"tile:128x2", rounding(256)},
      {"sonic", rounding(256)},
      {"vllm:64", vllm(64)},
      {"vllm:auto",
       [vllm](const PlainBatch& batch) {
         return vllm(batch.tokens <= static_cast<std::int64_t>(batch.rows.size()) ? 16 : 64)(batch);
       }},
      {"torch",
       [=](const PlainBatch& batch) { return rounding(std::floor(mean(batch)) <= 128 ? 128 : 256)(batch); }},
      {"sonic:nr", [](const PlainBatch& batch) { return plain_token_rounding(batch.rows); }},
      {"flat:128", [](const PlainBatch& batch) { return plain_flat(batch.rows, 128); }},
      {"max",
       [rounding](const PlainBatch& batch) {
         PlainCost cost = rounding(1)(batch);
         cost.scheduled = cost.launched = static_cast<std::int64_t>(batch.rows.size()) *
                                          *std::max_element(batch.rows.begin(), batch.rows.end());
         return cost;
       }},
      {"capacity:1:megatron",
       [=](const PlainBatch& batch) {
         return plain_capacity(batch.rows, static_cast<std::int64_t>(std::ceil(mean(batch))), false);
       }},
      {"capacity:1.25:megatron-pad",
       [=](const PlainBatch& batch) {
         return plain_capacity(batch.rows, static_cast<std::int64_t>(std::ceil(1.25 * mean(batch))), true);
       }},
      {"capacity:2:megablocks",
       [=](const PlainBatch& batch) {
         return plain_capacity(batch.rows, static_cast<std::int64_t>(std::floor(2 * mean(batch))), true);
       }},
  };
}

/// Linear interpolation between the two nearest of the sorted values.
inline double plain_percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double position = share * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (position - static_cast<double>(below)) * (values[above] - values[below]);
}

inline double plain_gini(const std::vector<std::int64_t>& rows) {
  double distance = 0;
  for (const std::int64_t a : rows)
    for (const std::int64_t b : rows) distance += std::abs(static_cast<double>(a - b));
  return distance / (2 * static_cast<double>(rows.size()) * static_cast<double>(plain_sum(rows)));
}

inline double plain_variation(const std::vector<std::int64_t>& rows) {
  const double experts = static_cast<double>(rows.size()),
               mean = static_cast<double>(plain_sum(rows)) / experts;
  double variance = 0;
  for (const std::int64_t count : rows) variance += std::pow(static_cast<double>(count) - mean, 2) / experts;
  return std::sqrt(variance) / mean;
}
