// Placements as the text report and the JSON show them.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

#include "dropless/report.hpp"

namespace dropless {

/// A table of the totals' placements and what there is to say of it.
std::string placements_text(const Report& report);

/// `placements` of data/report_schema.md.
nlohmann::ordered_json placements_json(const std::vector<PlacementFigures>& placements);

}  // namespace dropless
