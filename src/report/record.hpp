// The record that a reader needs to judge a report: what was assumed, with which widths and precision, and
// what the figures leave out. The text and the JSON print the same sentences.
#pragma once
#include <string>
#include <vector>

#include "dropless/report.hpp"

namespace dropless {

struct RecordEntry {
  const char* key;
  std::string text;
};

/// Local experts, widths, dtype, precision path, kind of FLOPs, batches.
std::vector<RecordEntry> record_entries(const Report& report);

/// What no figure covers, one phrase each.
std::vector<std::string> not_included(const Report& report);

/// Whether policies have a modelled time.
bool models_time(const Report& report);

/// "exact", or the bins' width.
std::string percentiles_method(const Report& report);

/// "4ndh" or "6ndh": forward FLOPs of n rows, d = d_model, h = d_ff.
const char* flops_formula(MlpKind kind);

}  // namespace dropless
