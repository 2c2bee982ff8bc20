// The modelled time as keys of the report's JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <optional>

#include "dropless/report.hpp"

namespace dropless {

/// time_us, its percentiles, bound and memory_bound_share into a policy's object; null without a time.
void add_time(const std::optional<TimeFigures>& time, nlohmann::ordered_json& policy);

/// The hardware and the parameters that decide times, and the advice, into the document.
void add_time_model(const Report& report, nlohmann::ordered_json& document);

}  // namespace dropless
