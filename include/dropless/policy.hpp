// Layout policies: how many rows a system schedules for a batch, given the rows of each expert. Each policy
// is a published system's rule, written as a formula and tied to the version it was read from.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "dropless/batch_rows.hpp"
#include "dropless/model_shape.hpp"

namespace dropless {

/// What a policy makes of one batch. kept + dropped = the batch's rows; the padding of a batch is
/// scheduled - kept - added.
struct PolicyCost {
  std::int64_t scheduled_rows = 0;  ///< rows for which matrix arithmetic is spent
  std::int64_t launched_rows =
      0;                       ///< rows that the launch must cover; more than scheduled where some exit early
  std::int64_t kept_rows = 0;  ///< assignments that are computed
  std::int64_t dropped_rows = 0;  ///< assignments that are not
  std::int64_t added_rows = 0;    ///< assignments that the router did not choose but the policy computes
  std::optional<std::int64_t>
      metadata_bytes;  ///< empty where unknown, or where it needs widths or tokens not given
};

/// Share of the scheduled rows that holds no assignment; 0 where nothing is scheduled.
inline double padding_fraction(std::int64_t scheduled_rows, std::int64_t kept_rows, std::int64_t added_rows) {
  if (scheduled_rows == 0) return 0;
  return static_cast<double>(scheduled_rows - kept_rows - added_rows) / static_cast<double>(scheduled_rows);
}

/// One policy, ready to be asked about batches. `cost` keeps no state: several threads may call it, each with
/// its own BatchRows.
struct Policy {
  std::string name;     ///< as the user spells it: "vllm:64"
  std::string source;   ///< the system and version whose rule it is
  std::string formula;  ///< scheduled rows and, where known, metadata bytes, in words
  std::function<PolicyCost(const BatchRows&)> cost;
  /// From this many rows a batch, the cost depends on which experts have how many; below, on how many experts
  /// have how many and on the lowest of them.
  std::int64_t rows_by_place_from = std::numeric_limits<std::int64_t>::max();
};

/// The policy of that name, for example "block:128", "tile:128x2" or "capacity:1.25:megatron". Throws Error
/// naming the text and what was expected; policy_forms() lists what is understood. The widths of `shape` (0:
/// not known) decide a few rules and metadata bytes.
Policy make_policy(const std::string& name, const ModelShape& shape = {});

/// The single policies that a name stands for: a sweep of capacity factors,
/// "capacity:START:STOP:STEP:SYSTEM", is one policy for each factor up to STOP, at most 256; any other name
/// is itself. Throws Error where the range is none.
std::vector<std::string> expanded_policies(const std::string& name);

/// A spelling that make_policy() understands, and what it stands for.
struct PolicyForm {
  std::string spelling;
  std::string meaning;
};
std::vector<PolicyForm> policy_forms();

/// What a report shows unless told otherwise. Some rules depend on a batch's tokens: those are left out where
/// the trace does not know them.
std::vector<std::string> default_policies(bool tokens_known);

}  // namespace dropless
