// Each part of a report to its JSON object. null stands for what does not apply or is not known.
#include "report/report_json.hpp"

#include "report/rank_output.hpp"
#include "report/record.hpp"
#include "report/sweep.hpp"
#include "report/time_json.hpp"

namespace dropless {
namespace {

using nlohmann::ordered_json;

template <class Value>
ordered_json or_null(const std::optional<Value>& value) {
  return value ? ordered_json(*value) : ordered_json(nullptr);
}

/// Counts that files state as 0 where they do not know them.
ordered_json known(std::int64_t count) { return count > 0 ? ordered_json(count) : ordered_json(nullptr); }

ordered_json policies_json(const Report& report, const RoutingFigures& figures) {
  ordered_json list = ordered_json::array();
  for (std::size_t i = 0; i < figures.policies.size(); ++i) {
    const PolicyFigures& policy = figures.policies[i];
    list.push_back({{"policy", report.policies[i].name},
                    {"source", report.policies[i].source},
                    {"scheduled_rows", policy.scheduled_rows},
                    {"launched_rows", policy.launched_rows},
                    {"dropped_rows", policy.dropped_rows},
                    {"added_rows", policy.added_rows},
                    {"padding_fraction", policy.padding_fraction},
                    {"padding_p50", policy.padding_p50},
                    {"padding_p95", policy.padding_p95},
                    {"padding_p99", policy.padding_p99},
                    {"padding_max", policy.padding_max},
                    {"metadata_bytes", or_null(policy.metadata_bytes)},
                    {"padding_activation_bytes", or_null(policy.padding_activation_bytes)},
                    {"useful_flops", or_null(policy.useful_flops)},
                    {"scheduled_flops", or_null(policy.scheduled_flops)}});
    add_time(policy.time, list.back());
  }
  return list;
}

ordered_json blocks_json(const RoutingFigures& figures) {
  ordered_json list = ordered_json::array();
  for (const BlockPadding& padding : figures.padding_by_block)
    list.push_back({{"block", padding.block},
                    {"scheduled_rows", padding.scheduled_rows},
                    {"padding_fraction", padding.padding_fraction}});
  return list;
}

/// The keys that layers and totals share, added to `out`.
void add_figures(const Report& report, const RoutingFigures& figures, ordered_json& out) {
  out["useful_rows"] = figures.useful_rows;
  out["active_experts"] = figures.active_experts;
  out["empty_experts"] = figures.empty_experts;
  out["experts_never_used"] = figures.experts_never_used;
  out["max_over_mean"] = figures.max_over_mean;
  out["max_over_mean_max"] = figures.max_over_mean_max;
  out["coefficient_of_variation"] = figures.coefficient_of_variation;
  out["gini"] = figures.gini;
  out["batches"] = figures.batches;
  out["batches_with_rows"] = figures.batches_with_rows;
  out["tokens"] = known(figures.tokens);
  out["unrouted"] = figures.unrouted;
  out["duplicate_rows"] = figures.duplicate_rows;
  out["policies"] = policies_json(report, figures);
  out["padding_by_block"] = blocks_json(figures);
  out["weight_bytes"] = or_null(figures.weight_bytes);
  out["activation_bytes"] = or_null(figures.activation_bytes);
  out["ranks"] = nullptr;
  if (figures.ranks) {
    out["ranks"] = {{"ranks", report.options.ranks},
                    {"placement", "contiguous"},
                    {"max_over_mean", figures.ranks->max_over_mean},
                    {"max_over_mean_max", figures.ranks->max_over_mean_max}};
    if (!figures.ranks->rows_per_rank.empty()) out["ranks"]["rows_per_rank"] = figures.ranks->rows_per_rank;
    if (!figures.ranks->placements.empty())
      out["ranks"]["placements"] = placements_json(figures.ranks->placements);
  }
  out["tiles"] = nullptr;
  if (figures.tiles)
    out["tiles"] = {{"tiles", figures.tiles->tiles},
                    {"waves", figures.tiles->waves},
                    {"idle_share_of_last_wave", figures.tiles->idle_share_of_last_wave},
                    {"idle_share", figures.tiles->idle_share},
                    {"longest_expert_share", figures.tiles->longest_expert_share},
                    {"longest_expert_share_max", figures.tiles->longest_expert_share_max}};
}

/// What only a layer's figures have.
void add_layer_figures(const RoutingFigures& figures, ordered_json& out) {
  out["summed_max_over_mean"] = figures.summed_max_over_mean;
  out["summed_coefficient_of_variation"] = figures.summed_coefficient_of_variation;
  out["summed_gini"] = figures.summed_gini;
  out["rows_per_expert"] = figures.rows_per_expert;
}

ordered_json layer_json(const Report& report, const LayerFigures& layer) {
  ordered_json out = {{"layer", layer.layer}, {"dense", layer.dense}, {"warmup_rows", layer.warmup_rows}};
  add_figures(report, layer.figures, out);
  add_layer_figures(layer.figures, out);
  out["without_warmup"] = nullptr;
  if (layer.without_warmup) {
    add_figures(report, *layer.without_warmup, out["without_warmup"]);
    add_layer_figures(*layer.without_warmup, out["without_warmup"]);
  }
  return out;
}

ordered_json trace_json(const Report& report) {
  const TraceInfo& trace = report.trace;
  return {{"path", trace.path},
          {"format", trace.format},
          {"experts", trace.experts},
          {"experts_inferred", trace.experts_inferred},
          {"top_k", known(trace.top_k)},
          {"layers", trace.layers.size()},
          {"batches", report.trace_batches},
          {"tokens", known(report.trace_tokens)},
          {"assignments", report.trace_assignments},
          {"unrouted", report.trace_unrouted},
          {"duplicate_rows", report.trace_duplicate_rows},
          {"warmup_rows", report.trace_warmup_rows},
          {"counts_only", trace.counts_only},
          {"cumulative", trace.cumulative},
          {"assumptions", trace.assumptions},
          {"warnings", report.warnings}};
}

ordered_json model_json(const ReportOptions& options) {
  if (!options.model) return nullptr;
  const ModelShape& model = *options.model;
  return {{"name", model.name.empty() ? ordered_json(nullptr) : ordered_json(model.name)},
          {"mlp", mlp_kind_name(model.mlp)},
          {"flops", flops_formula(model.mlp)},
          {"d_model", model.d_model},
          {"d_ff", model.d_ff},
          {"dtype", element_name(model.dtype)},
          {"experts", known(model.experts)},
          {"top_k", known(model.top_k)},
          {"source",
           model.source.empty() ? ordered_json("given on the command line") : ordered_json(model.source)}};
}

/// Bins as {<what>_at_least, <what>_below, batches}, the borders as `Border`s.
template <class Border>
ordered_json histogram_json(const std::vector<HistogramBin>& bins, const std::string& what) {
  ordered_json list = ordered_json::array();
  for (const HistogramBin& bin : bins)
    list.push_back({{what + "_at_least", static_cast<Border>(bin.least)},
                    {what + "_below", static_cast<Border>(bin.below)},
                    {"batches", bin.batches}});
  return list;
}

ordered_json quantiles_json(const RowQuantiles& rows) {
  return {{"mean", rows.mean}, {"min", rows.least}, {"p10", rows.p10}, {"p25", rows.p25}, {"p50", rows.p50},
          {"p75", rows.p75},   {"p90", rows.p90},   {"p99", rows.p99}, {"max", rows.most}};
}

ordered_json record_json(const Report& report) {
  ordered_json out = {{"rows_per_expert", quantiles_json(report.rows_per_expert)},
                      {"rows_per_batch", quantiles_json(report.rows_per_batch)},
                      {"percentiles", percentiles_method(report)}};
  for (const RecordEntry& entry : record_entries(report)) out[entry.key] = entry.text;
  out["policies"] = ordered_json::array();
  for (const Policy& policy : report.policies)
    out["policies"].push_back(
        {{"policy", policy.name}, {"source", policy.source}, {"formula", policy.formula}});
  out["not_included"] = not_included(report);
  return out;
}

ordered_json capacity_json(const Report& report) {
  ordered_json list = ordered_json::array();
  for (const CapacityCurve& curve : capacity_curves(report)) {
    list.push_back({{"system", curve.system}, {"points", ordered_json::array()}});
    for (const CapacityPoint& point : curve.points)
      list.back()["points"].push_back({{"factor", point.factor},
                                       {"padding_fraction", point.padding_fraction},
                                       {"dropped_fraction", point.dropped_fraction}});
  }
  return list;
}

}  // namespace

ordered_json report_document(const Report& report) {
  ordered_json document = {
      {"schema_version", 1}, {"trace", trace_json(report)},      {"model", model_json(report.options)},
      {"hardware", nullptr}, {"totals", ordered_json::object()}, {"layers", ordered_json::array()}};
  if (report.options.sms > 0) document["hardware"] = {{"sms", report.options.sms}};
  if (report.options.time) add_time_model(report, document);
  add_figures(report, report.totals, document["totals"]);
  document["totals"]["without_warmup"] = nullptr;
  if (report.totals_without_warmup)
    add_figures(report, *report.totals_without_warmup, document["totals"]["without_warmup"]);
  for (const LayerFigures& layer : report.layers) document["layers"].push_back(layer_json(report, layer));
  document["batches"] = {{"rows_histogram", histogram_json<std::int64_t>(report.batches_by_rows, "rows")},
                         {"padding_histogram", histogram_json<double>(report.batches_by_padding, "padding")}};
  document["sweep"] = {{"batch_tokens", nullptr}, {"capacity", capacity_json(report)}};
  for (const MetricDefinition& metric : metric_definitions())
    document["definitions"][metric.name] = metric.definition;
  document["record"] = record_json(report);
  return document;
}

std::string json_text(const ordered_json& document) {
  return document.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string report_json(const Report& report) { return json_text(report_document(report)); }

}  // namespace dropless
