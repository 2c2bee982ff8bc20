// The report as a JSON document (schema_version 1; data/report_schema.md documents every key).
#pragma once
#include <nlohmann/json.hpp>

#include "dropless/report.hpp"

namespace dropless {

/// Keys stand in the order in which a reader wants them.
nlohmann::ordered_json report_document(const Report& report);

/// Any document as report_json() writes one: indented, and valid UTF-8 whatever bytes a path holds.
std::string json_text(const nlohmann::ordered_json& document);

}  // namespace dropless
