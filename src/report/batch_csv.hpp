// A report's batches one by one: a CSV line for each batch, layer and policy, for a spreadsheet or a plot of
// what the report sums up.
#pragma once
#include <functional>
#include <string_view>

#include "dropless/report.hpp"

namespace dropless {

/// Takes the text piece by piece. What it throws ends the reading.
using TextWriter = std::function<void(std::string_view)>;

/// Reads `trace` once more, with one worker, so that lines follow the file's order however the report was
/// made, and writes each batch under every policy of its `report`; memory does not grow with the trace. The
/// batches are those that the totals cover: with warm-up rows, without dense layers, without batches that
/// have no row. An empty `tokens` is unknown. Throws whatever Trace::read and `write` throw.
void write_batch_csv(Trace& trace, const Report& report, const TextWriter& write, Progress progress = nullptr,
                     void* context = nullptr);

}  // namespace dropless
