// The section of the text report on modelled time, and what to do.
#pragma once
#include <string>

#include "dropless/report.hpp"

namespace dropless {

/// Of a report with ReportOptions::time: the table of times (where widths are known) and at most three lines
/// of advice.
std::string time_text(const Report& report);

}  // namespace dropless
