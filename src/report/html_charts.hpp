// The pictures of the HTML page, each an inline SVG from the report's JSON document; empty where the document
// holds nothing to draw. Colours come from the page's style, so one picture serves light and dark.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// Rows per expert: a line a layer, a cell an expert, coloured by the ratio to the layer's mean. From
/// layers[].rows_per_expert.
std::string heat_map_chart(const nlohmann::ordered_json& layers);

/// Padding fraction over block size: the whole trace from `padding_by_block` and, thinner, each layer from
/// its policies of the name block:B.
std::string padding_chart(const nlohmann::ordered_json& padding_by_block,
                          const nlohmann::ordered_json& layers);

/// Batches by their rows: [{rows_at_least, rows_below, batches}].
std::string rows_histogram_chart(const nlohmann::ordered_json& histogram);

/// Batches by their padding fraction at a block of 128: batches of each of n equal bins of [0, 1], as numbers
/// or as objects with `batches`.
std::string padding_histogram_chart(const nlohmann::ordered_json& histogram);

}  // namespace dropless
