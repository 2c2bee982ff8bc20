// Finding a layer's warm-up: the identical rows that serving engines log before the first real request.
#pragma once
#include <cstdint>
#include <map>
#include <vector>

#include "traces/array_units.hpp"

namespace dropless::traces {

/// Identical rows at the start of a layer that are taken for warm-up.
inline constexpr std::int64_t least_warmup_rows = 256;

/// A layer's warm-up; `tokens` is 0 where it starts with fewer identical rows, or has no other rows.
struct WarmupRows {
  std::int64_t tokens = 0;
  std::vector<std::int64_t> row;                         ///< the expert ids of each of them
  std::map<std::int64_t, std::int64_t> tokens_of_batch;  ///< by number of the batch, unless cut from tokens

  /// Its tokens in a batch.
  std::int64_t in_batch(std::int64_t batch, std::int64_t batch_tokens) const;
  bool repeats_an_expert() const;
  std::int64_t unrouted_per_token() const;
};

/// The warm-up of each selected layer. Reads no further into a layer than its rows are identical.
std::vector<WarmupRows> find_warmup(const BatchedArray& array, std::int64_t selected_layers);

}  // namespace dropless::traces
