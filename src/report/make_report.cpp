// Reads a trace into sums and the sums into a report: layers, totals without the dense ones, the same without
// warm-up, and a warning for everything that would mislead.
#include <algorithm>
#include <thread>

#include "dropless/report.hpp"
#include "dropless/row_tiles.hpp"
#include "report/histograms.hpp"
#include "report/report_reading.hpp"
#include "report/warnings.hpp"

namespace dropless {
namespace {

ReportPlan make_plan(const TraceInfo& trace, const ReportOptions& options) {
  ReportPlan plan;
  plan.experts = trace.experts;
  plan.ranks = options.ranks;
  plan.sms = options.sms;
  plan.model = options.model;
  if (plan.ranks < 0 || plan.ranks > plan.experts)
    throw Error("ranks", std::to_string(plan.ranks),
                "1 to the number of experts, " + std::to_string(plan.experts));
  if (plan.ranks > 0)
    plan.contiguous_ranks.emplace(contiguous_placement(plan.experts, plan.ranks), plan.experts, plan.ranks);
  if (plan.sms < 0 || plan.sms > 1 << 20) throw Error("sms", std::to_string(plan.sms), "1 to 2^20");
  const ModelShape shape = options.model.value_or(ModelShape{});
  if (options.model) {
    for (const auto& [name, width] : {std::pair{"d_model", shape.d_model}, {"d_ff", shape.d_ff}})
      if (width < 1 || width > 1 << 24) throw Error(name, std::to_string(width), "1 to 2^24");
    if (options.time) {
      check_time_model(*options.time, shape.dtype);
      plan.time = options.time;
    }
    plan.column_tiles = ceil_div(up_columns(shape.mlp, shape.d_ff), widest_tile_columns);
  }
  const bool tokens_known = !trace.counts_only || trace.top_k > 0;
  for (const std::string& name : options.policies.empty() ? default_policies(tokens_known) : options.policies)
    for (const std::string& single : expanded_policies(name))
      plan.policies.push_back(make_policy(single, shape));
  return plan;
}

/// Sums over several parts; those that are absent count for nothing.
LayerSums sum_of(const ReportPlan& plan, bool exact, std::initializer_list<const LayerSums*> parts) {
  LayerSums sums(plan);
  if (!exact) sums.use_bins();
  for (const LayerSums* part : parts)
    if (part != nullptr) sums.add(*part);
  return sums;
}

}  // namespace

ReportReading::ReportReading(const TraceInfo& trace, const ReportOptions& options)
    : options_(options),
      workers_(options.workers > 0 ? options.workers
                                   : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()))),
      plan_(make_plan(trace, options)),
      gathered_(plan_, trace, workers_),
      placements_(options, trace),
      sink_(placements_.first_read(gathered_, workers_)) {}

Report ReportReading::finish(Trace& trace, const std::vector<LayerFacts>& facts, Progress progress,
                             void* context) {
  Report report;
  report.trace = trace.info();
  report.options = options_;
  report.policies = plan_.policies;
  report.exact_percentiles = gathered_.settle();
  const bool exact = report.exact_percentiles;
  LayerSums totals = sum_of(plan_, exact, {}), corrected_totals = sum_of(plan_, exact, {});
  std::int64_t never_used = 0, corrected_never_used = 0;
  for (std::size_t i = 0; i < facts.size(); ++i) {
    const LayerParts parts = gathered_.take_layer(i);
    const LayerSums sums = sum_of(plan_, exact, {parts.plain.get(), parts.warmup.get()});
    LayerFigures layer{facts[i].layer, facts[i].dense, facts[i].warmup_rows, sums.layer_figures(plan_), {}};
    report.trace_batches += layer.figures.batches;
    report.trace_tokens += layer.figures.tokens;
    report.trace_assignments += layer.figures.useful_rows + layer.figures.unrouted;
    report.trace_unrouted += layer.figures.unrouted;
    report.trace_duplicate_rows += layer.figures.duplicate_rows;
    report.trace_warmup_rows += layer.warmup_rows;
    std::int64_t corrected = layer.figures.experts_never_used;
    if (parts.warmup) {
      const LayerSums without = sum_of(plan_, exact, {parts.plain.get(), parts.corrected.get()});
      layer.without_warmup = without.layer_figures(plan_);
      corrected = layer.without_warmup->experts_never_used;
      if (!layer.dense) corrected_totals.add(without);
    } else if (!layer.dense) {
      corrected_totals.add(sums);
    }
    if (!layer.dense) {
      totals.add(sums);
      never_used += layer.figures.experts_never_used;
      corrected_never_used += corrected;
    }
    report.layers.push_back(std::move(layer));
  }
  report.totals = totals.figures(plan_);
  report.totals.experts_never_used = never_used;
  const auto has_warmup = [](const LayerFigures& layer) { return !layer.dense && layer.without_warmup; };
  if (std::any_of(report.layers.begin(), report.layers.end(), has_warmup)) {
    report.totals_without_warmup = corrected_totals.figures(plan_);
    report.totals_without_warmup->experts_never_used = corrected_never_used;
  }
  report.rows_per_expert = row_quantiles(totals.rows_of_experts(), report.totals.useful_rows);
  report.rows_per_batch = row_quantiles(totals.rows_of_batches(), report.totals.useful_rows);
  report.batches_by_rows = bins_by_rows(totals.rows_of_batches());
  report.batches_by_padding = bins_by_padding(totals.batches_by_padding());
  if (plan_.ranks > 0) placements_.score(report, trace, workers_, progress, context);
  report.warnings = report_warnings(report);
  return report;
}

Report make_report(Trace& trace, const ReportOptions& options, Progress progress, void* context) {
  ReportReading reading(trace.info(), options);
  const std::vector<LayerFacts> facts = trace.read(reading.sink(), reading.workers(), progress, context);
  return reading.finish(trace, facts, progress, context);
}

}  // namespace dropless
