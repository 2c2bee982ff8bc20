// What changed between two reports, for example before and after a load-balancing loss: the imbalance of the
// experts and the padding of the policies, in total and layer by layer. It works on the JSON documents of the
// reports, so that a report kept as a file compares as well as a trace.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// The comparison of the documents `a` and `b` of report_document() as {`schema_version`, `a`, `b`, `totals`,
/// `layers`}; data/report_schema.md documents every key. Policies are matched by name, layers by number.
/// Throws Error where a document is not of schema_version 1 or a figure is missing.
nlohmann::ordered_json compare_reports(const nlohmann::ordered_json& a, const nlohmann::ordered_json& b);

/// A comparison as tables of at most 100 columns, totals first.
std::string comparison_text(const nlohmann::ordered_json& comparison);

}  // namespace dropless
