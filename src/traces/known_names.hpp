// What producers call the arrays that hold routing, and the numbers that say where a record belongs.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace dropless::traces {

inline constexpr std::string_view ids_names[] = {"topk_ids", "topk_idx", "top_indices", "expert_ids",
                                                 "routed_experts"};
inline constexpr std::string_view counts_names[] = {"tokens_per_expert", "rows_per_expert", "exp_counts",
                                                    "logical_count"};

inline constexpr std::string_view layer_names[] = {"layer", "layer_id", "layer_idx", "layer_number"};
inline constexpr std::string_view step_names[] = {"step", "iteration"};

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

/// Whether a number of that name is the layer's, or the step's.
constexpr bool names_layer(std::string_view name) { return is_one_of(name, layer_names); }
constexpr bool names_step(std::string_view name) { return is_one_of(name, step_names); }

/// All the names, as they may stand in a message: "ids under topk_ids, ..., or counts under ...".
std::string known_names_text();

}  // namespace dropless::traces
