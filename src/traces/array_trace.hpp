// A trace that is one array of known axes: expert ids of tokens, or counts per expert.
#pragma once
#include <memory>
#include <string>

#include "dropless/trace.hpp"
#include "traces/array_spec.hpp"

namespace dropless::traces {

/// What the container says beyond the array itself.
struct ArrayOrigin {
  std::string path;
  std::string format;  ///< TraceInfo::format
  std::string place;   ///< put before the place of an error: a member's or key's name, or empty
  /// The producer's counts run over many batches unless a batch axis says otherwise.
  bool cumulative = false;
  std::int64_t experts = 0;              ///< > 0: stated beside the array
  std::int64_t top_k = 0;                ///< > 0: stated beside the array
  std::vector<std::string> assumptions;  ///< made by the container's reader
};

/// Reads the array's shape against the options; where the number of experts is not stated, reads all ids for
/// the largest.
std::unique_ptr<Trace> open_array_trace(ArraySpec array, ArrayOrigin origin, const TraceOptions& options);

/// Most experts that are believed; an id past it means that the numbers are no expert ids.
inline constexpr std::int64_t most_experts = 65536;

/// Most layers that are believed; an axis past it counts something else. A report keeps sums for each.
inline constexpr std::int64_t most_layers = 4096;

}  // namespace dropless::traces
