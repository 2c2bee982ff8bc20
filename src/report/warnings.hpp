// What a reader must know before believing the figures: one sentence each, with its count.
#pragma once
#include <string>
#include <vector>

#include "dropless/report.hpp"

namespace dropless {

/// The warnings of a report whose figures are complete.
std::vector<std::string> report_warnings(const Report& report);

/// "0-2, 7, 9-11": numbers in ascending order, runs joined.
std::string number_ranges(std::vector<std::int64_t> numbers);

}  // namespace dropless
