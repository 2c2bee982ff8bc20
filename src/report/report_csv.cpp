// One line for each layer and policy, then the totals: figures of the layer repeat on each of its lines.
#include <fmt/format.h>

#include "dropless/report.hpp"

namespace dropless {
namespace {

template <class Value>
std::string or_empty(const std::optional<Value>& value) {
  return value ? fmt::format("{}", *value) : "";
}

/// A field that may hold commas.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char letter : text) out += letter == '"' ? std::string("\"\"") : std::string(1, letter);
  return out + '"';
}

void add_lines(const Report& report, const std::string& layer, const char* warmup,
               const RoutingFigures& figures, std::string& out) {
  for (std::size_t i = 0; i < figures.policies.size(); ++i) {
    const PolicyFigures& policy = figures.policies[i];
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},", layer, warmup, figures.batches_with_rows,
                       figures.useful_rows, figures.active_experts, figures.empty_experts,
                       figures.experts_never_used, figures.max_over_mean, figures.max_over_mean_max,
                       figures.coefficient_of_variation, figures.gini, report.policies[i].name);
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", quoted(report.policies[i].source),
                       policy.scheduled_rows, policy.launched_rows, policy.dropped_rows, policy.added_rows,
                       policy.padding_fraction, policy.padding_p50, policy.padding_p95, policy.padding_p99,
                       policy.padding_max, or_empty(policy.metadata_bytes), or_empty(policy.useful_flops),
                       or_empty(policy.scheduled_flops));
  }
}

}  // namespace

std::string report_csv(const Report& report) {
  std::string out =
      "layer,warmup,batches_with_rows,useful_rows,active_experts,empty_experts,experts_never_used,max_over_"
      "mean,"
      "max_over_mean_max,coefficient_of_variation,gini,policy,source,scheduled_rows,launched_rows,dropped_"
      "rows,"
      "added_rows,padding_fraction,padding_p50,padding_p95,padding_p99,padding_max,metadata_bytes,useful_"
      "flops,"
      "scheduled_flops\n";
  for (const LayerFigures& layer : report.layers) {
    const std::string number = std::to_string(layer.layer) + (layer.dense ? " (dense)" : "");
    add_lines(report, number, "included", layer.figures, out);
    if (layer.without_warmup) add_lines(report, number, "left out", *layer.without_warmup, out);
  }
  add_lines(report, "total", "included", report.totals, out);
  if (report.totals_without_warmup)
    add_lines(report, "total", "left out", *report.totals_without_warmup, out);
  return out;
}

}  // namespace dropless
