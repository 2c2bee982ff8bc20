// The warnings, in the order of how far each may lead a reader astray.
#include "report/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "report/record.hpp"

namespace dropless {
namespace {

/// The layers for which `matches` holds, as ranges; empty where there is none.
template <class Matches>
std::string layers_where(const Report& report, Matches matches) {
  std::vector<std::int64_t> numbers;
  for (const LayerFigures& layer : report.layers)
    if (matches(layer)) numbers.push_back(layer.layer);
  if (numbers.empty()) return "";
  return (numbers.size() == 1 ? "layer " : "layers ") + number_ranges(numbers);
}

/// Whether ids read that way name most tokens' experts twice, which no router does.
bool most_tokens_repeat(const Report& report) {
  return report.trace_duplicate_rows > report.trace_tokens / 2;
}

}  // namespace

std::string number_ranges(std::vector<std::int64_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < numbers.size(); begin = end) {
    for (end = begin + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(numbers[begin]);
    if (end - begin > 1) text += '-' + std::to_string(numbers[end - 1]);
  }
  return text;
}

std::vector<std::string> report_warnings(const Report& report) {
  std::vector<std::string> warnings;
  if (report.trace.cumulative)
    warnings.push_back(
        "the counts were gathered over a whole run, not per batch: block padding is about 0 by construction "
        "and says nothing about a batch (--batched if each array is one batch)");
  warnings.insert(warnings.end(), report.trace.warnings.begin(), report.trace.warnings.end());
  if (report.totals.batches_with_rows == 0)
    warnings.push_back("no batch outside dense layers has a single row");
  const std::string warm =
      layers_where(report, [](const LayerFigures& layer) { return layer.warmup_rows > 0; });
  if (!warm.empty()) {
    const bool included =
        std::any_of(report.layers.begin(), report.layers.end(),
                    [](const LayerFigures& layer) { return layer.without_warmup.has_value(); });
    warnings.push_back(fmt::format(
        "{} identical rows at the start of {} look like warm-up: {}", report.trace_warmup_rows, warm,
        included ? "figures include them, corrected figures stand beside (--drop-warmup leaves them out)"
                 : "they were left out"));
  }
  const std::string dense = layers_where(report, [](const LayerFigures& layer) { return layer.dense; });
  if (!dense.empty())
    warnings.push_back(
        fmt::format("{} {} dense (no counts, or every row repeats one expert): left out of the totals", dense,
                    dense.compare(0, 7, "layers ") == 0 ? "look" : "looks"));
  if (report.trace.experts_inferred)
    warnings.push_back(
        fmt::format("the file does not say how many experts there are: {} is the largest id + 1 (state it "
                    "with --experts)",
                    report.trace.experts));
  if (report.trace_duplicate_rows > 0)
    warnings.push_back(
        fmt::format("{} more than once{}",
                    report.trace_duplicate_rows == 1
                        ? "1 token names an expert"
                        : fmt::format("{} tokens name an expert", report.trace_duplicate_rows),
                    most_tokens_repeat(report)
                        ? ": are the numbers rows per expert, not ids? (--axes with expert says so)"
                        : ""));
  if (report.trace_unrouted > 0)
    warnings.push_back(
        fmt::format("{} ids below zero are unrouted: no rows are counted for them", report.trace_unrouted));
  if (const auto& model = report.options.model) {
    if (model->experts > 0 && model->experts != report.trace.experts)
      warnings.push_back(
          fmt::format("the model has {} experts, the trace {}", model->experts, report.trace.experts));
    if (model->top_k > 0 && report.trace.top_k > 0 && model->top_k != report.trace.top_k)
      warnings.push_back(
          fmt::format("the model's top_k is {}, the trace's {}", model->top_k, report.trace.top_k));
  }
  if (const auto& time = report.options.time;
      models_time(report) && !time->fitted_on.empty() && time->fitted_on != time->hardware.name)
    warnings.push_back(
        fmt::format("modelled times are the {0}'s, with fractions of peak and bandwidth and an overhead that "
                    "were measured on the {1}: no {0} was measured",
                    time->hardware.name, time->fitted_on));
  return warnings;
}

}  // namespace dropless
