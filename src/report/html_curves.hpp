// The page's pictures of a sweep, from `sweep` of the report's JSON document; empty where there is none.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// Padding of each policy against batch size: sweep.batch_tokens.
std::string batch_padding_chart(const nlohmann::ordered_json& batch_tokens);

/// Modelled time of a batch under each policy, mean over batches, against batch size; empty without times.
std::string batch_time_chart(const nlohmann::ordered_json& batch_tokens);

/// Padding and dropped rows against the capacity factor: one of sweep.capacity.
std::string capacity_chart(const nlohmann::ordered_json& curve);

}  // namespace dropless
