// What a report's figures say to do: at most three sentences, each naming the figures that it rests on.
#pragma once
#include <string>
#include <vector>

#include "dropless/report.hpp"

namespace dropless {

/// Ranked by modelled time where the report has it; without widths no cheapest policy is named. Of the
/// figures without warm-up where the trace has one.
std::vector<std::string> what_to_do(const Report& report);

}  // namespace dropless
