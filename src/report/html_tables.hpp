// The tables of the HTML page, each from a list in the report's JSON document; empty where there is nothing
// to show.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// A line a policy: scheduled rows, padding, what is dropped, added, held and computed. Padding that means
/// nothing (counts gathered over a whole run) is said to, instead of its number.
std::string policy_table(const nlohmann::ordered_json& policies, bool padding_is_meaningful);

/// A line a policy: its modelled time and what bounds it; empty where no policy has a time.
std::string time_table(const nlohmann::ordered_json& policies);

/// A line a placement of experts on ranks, or one for each half of the batches: how even its ranks are and
/// the modelled time of the slowest one.
std::string placement_table(const nlohmann::ordered_json& placements);

/// A line a layer: its imbalance.
std::string layer_table(const nlohmann::ordered_json& layers);

/// Any JSON value as a definition list: objects nest, arrays of plain numbers are one line.
std::string record_list(const nlohmann::ordered_json& value);

}  // namespace dropless
