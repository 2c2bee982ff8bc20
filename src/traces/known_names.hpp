// What producers call the arrays that hold routing, in whatever container they stand.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dropless::traces {

inline constexpr std::string_view ids_names[] = {"topk_ids", "topk_idx", "top_indices", "expert_ids",
                                                 "routed_experts"};
inline constexpr std::string_view counts_names[] = {"tokens_per_expert", "rows_per_expert", "exp_counts",
                                                    "logical_count"};

template <std::size_t count>
constexpr bool is_one_of(std::string_view name, const std::string_view (&names)[count]) {
  for (const std::string_view known : names)
    if (name == known) return true;
  return false;
}

/// Whether an array of that name holds tokens' expert ids.
constexpr bool names_ids(std::string_view name) { return is_one_of(name, ids_names); }
/// Whether an array of that name holds counts per expert.
constexpr bool names_counts(std::string_view name) { return is_one_of(name, counts_names); }

/// All the names, as they may stand in a message: "ids under topk_ids, ..., or counts under ...".
std::string known_names_text();

}  // namespace dropless::traces
