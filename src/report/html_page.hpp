// The report as one self-contained HTML page: no script, no file or network beside it.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// The page of a report's JSON document (schema 1). Beside the documented keys it draws
/// layers[].rows_per_expert [experts], padding_by_block [{block, scheduled_rows, padding_fraction}],
/// batches.rows_histogram
/// [{rows_at_least, rows_below, batches}], batches.padding_histogram [batches of each equal bin of [0, 1]],
/// sweep {batch_tokens, capacity}, definitions {metric: sentence} and record {name: anything}. What is absent
/// or null is left out. Every text of the document is escaped.
std::string html_page(const nlohmann::ordered_json& report);

}  // namespace dropless
