// The report as text: what was read, warnings, the answer in two sentences, then tables, then the record.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "dropless/report.hpp"
#include "ratio.hpp"
#include "report/rank_output.hpp"
#include "report/record.hpp"
#include "report/sweep.hpp"
#include "report/text_format.hpp"
#include "report/time_text.hpp"

namespace dropless {
namespace {

class TextReport {
 public:
  explicit TextReport(const Report& report) : report_(report) {
    for (const Policy& policy : report.policies) name_width_ = std::max(name_width_, policy.name.size());
    if (report.totals_without_warmup) name_width_ = std::max(name_width_, std::size_t{28});
  }

  std::string str() {
    heading();
    summary(report_.totals_without_warmup ? *report_.totals_without_warmup : report_.totals);
    policy_table(report_.totals_without_warmup ? "All layers, warm-up included" : "All layers",
                 report_.totals);
    if (report_.totals_without_warmup)
      policy_table("All layers without warm-up", *report_.totals_without_warmup);
    print("{}", capacity_text(report_));
    if (report_.options.time) out_.append(time_text(report_));
    layer_table();
    distribution();
    cost_table();
    ranks();
    tiles();
    record();
    return fmt::to_string(out_);
  }

 private:
  template <class... Arguments>
  void print(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Arguments>(arguments)...);
  }
  void paragraph(const std::string& text, std::size_t indent = 2) { print("{}\n", wrapped(text, indent)); }

  bool padding_is_meaningful() const { return !report_.trace.cumulative; }

  void heading() {
    const TraceInfo& trace = report_.trace;
    paragraph(fmt::format("{} ({})", trace.path, trace.format));
    const auto layers = static_cast<std::int64_t>(trace.layers.size());
    std::string shape = counted(layers, "layer") + ", " + counted(trace.experts, "expert");
    if (trace.top_k > 0) shape += fmt::format(", top-{}", trace.top_k);
    shape += "; " + counted(report_.trace_batches, "batch");
    if (report_.trace_tokens > 0) shape += ", " + counted(report_.trace_tokens, "token");
    const std::int64_t unrouted = report_.trace_unrouted;
    shape += ", ";
    if (unrouted > 0) shape += grouped(report_.trace_assignments - unrouted) + " of ";
    shape += counted(report_.trace_assignments, "assignment") + (unrouted > 0 ? " routed" : "");
    paragraph(shape + (layers > 1 ? " (summed over layers)" : ""));
    for (const std::string& assumption : trace.assumptions) paragraph("note: " + assumption);
    for (const std::string& warning : report_.warnings) paragraph("warning: " + warning);
  }

  /// The answer before the tables: what blocks cost, and how uneven the experts are.
  void summary(const RoutingFigures& figures) {
    if (figures.batches_with_rows == 0) return;
    print("\n");
    const char* when = report_.totals_without_warmup ? " without the warm-up" : "";
    const auto per_batch = [&](std::int64_t sum) {
      return static_cast<double>(sum) / static_cast<double>(figures.batches_with_rows);
    };
    if (!padding_is_meaningful()) {
      paragraph(fmt::format(
          "Over the run the fullest expert of a layer has {:.2f} times the mean rows ({:.2f} in the "
          "worst layer); {} (layer, expert) pairs have no row.",
          figures.max_over_mean, figures.max_over_mean_max, figures.empty_experts));
      return;
    }
    std::string blocks;
    for (const BlockPadding& block : figures.padding_by_block)
      if (block.block == 16 || block.block == 64 || block.block == 128)
        blocks +=
            fmt::format("{}{:.2f} in {}-row blocks ({} %)", blocks.empty() ? "" : ", ",
                        static_cast<double>(block.scheduled_rows) / static_cast<double>(figures.useful_rows),
                        block.block, percent(block.padding_fraction));
    paragraph(fmt::format("Rows scheduled for each useful row{} (and the share that is padding): {}.", when,
                          blocks));
    paragraph(
        fmt::format("A batch has {:.0f} rows and {:.1f} of {} experts active on average; its fullest expert "
                    "has {:.2f} times the "
                    "mean rows ({:.2f} at worst); {} % of (batch, expert) pairs are empty.",
                    per_batch(figures.useful_rows), per_batch(figures.active_experts), report_.trace.experts,
                    figures.max_over_mean, figures.max_over_mean_max,
                    percent(per_batch(figures.empty_experts) / static_cast<double>(report_.trace.experts))));
  }

  void policy_table(const char* title, const RoutingFigures& figures) {
    print("\n{:<{}}{:>14}{:>8}  padding % of batches   dropped\n", title, name_width_, "scheduled",
          "padding");
    print("{:<{}}{:>14}{:>8}{:>6}{:>6}{:>6}{:>6}{:>8}  {}\n", "policy", name_width_, "rows", "%", "p50",
          "p95", "p99", "max", "%", "source");
    for (std::size_t i = 0; i < figures.policies.size(); ++i) {
      const PolicyFigures& policy = figures.policies[i];
      const std::string padding =
          padding_is_meaningful() ? fmt::format("{:>8}{:>6}{:>6}{:>6}{:>6}", percent(policy.padding_fraction),
                                                percent(policy.padding_p50), percent(policy.padding_p95),
                                                percent(policy.padding_p99), percent(policy.padding_max))
                                  : fmt::format("{:>32}", "not meaningful");
      print("{:<{}}{:>14}{}{:>8}  {}\n", report_.policies[i].name, name_width_,
            grouped(policy.scheduled_rows), padding,
            percent(ratio(policy.dropped_rows, policy.kept_rows + policy.dropped_rows)),
            report_.policies[i].source);
    }
    for (std::size_t i = 0; i < figures.policies.size(); ++i) {
      const PolicyFigures& policy = figures.policies[i];
      if (policy.launched_rows != policy.scheduled_rows)
        print("{} launches {} rows\n", report_.policies[i].name, grouped(policy.launched_rows));
      if (policy.added_rows > 0)
        print("{} adds {} rows that the router did not choose\n", report_.policies[i].name,
              grouped(policy.added_rows));
    }
  }

  void layer_line(const std::string& name, const RoutingFigures& figures) {
    const double batches = static_cast<double>(std::max<std::int64_t>(1, figures.batches_with_rows));
    const double experts = static_cast<double>(report_.trace.experts);
    print("{:<12}{:>14}{:>8.1f}{:>7}{:>6}{:>7.2f}{:>7.2f}{:>6.2f}{:>6.2f}", name,
          grouped(figures.useful_rows), static_cast<double>(figures.active_experts) / batches,
          percent(static_cast<double>(figures.empty_experts) / (batches * experts)),
          figures.experts_never_used, figures.max_over_mean, figures.max_over_mean_max,
          figures.coefficient_of_variation, figures.gini);
    if (padding_is_meaningful())
      for (const BlockPadding& block : figures.padding_by_block) {
        if (block.block != 32) print("{:>6}", percent(block.padding_fraction));
      }
    print("\n");
  }

  void layer_table() {
    print("\n{:<12}{:>14}{:>8}{:>7}{:>6}{:>14}{:>6}{:>6}{}\n", "By layer", "useful rows", "active", "empty",
          "never", "max / mean", "", "", padding_is_meaningful() ? "  padding % at block" : "");
    print("{:<12}{:>14}{:>8}{:>7}{:>6}{:>7}{:>7}{:>6}{:>6}{}\n", "layer", "(sum)", "/ batch", "%", "used",
          "mean", "worst", "CV", "Gini", padding_is_meaningful() ? "    16    64   128   256" : "");
    for (const LayerFigures& layer : report_.layers) {
      if (layer.dense) {
        print("{:<12}{:>14}  dense, left out of the totals\n", layer.layer,
              grouped(layer.figures.useful_rows));
        continue;
      }
      layer_line(std::to_string(layer.layer), layer.figures);
      if (layer.without_warmup) layer_line(" no warm-up", *layer.without_warmup);
    }
  }

  void quantiles(const char* what, const RowQuantiles& rows) {
    if (rows.least == rows.most) {
      print("{:<16} always {}\n", what, rows.most);
      return;
    }
    std::string text = fmt::format("{:<16} mean {:.1f}", what, rows.mean);
    for (const auto& [name, value] : {std::pair{"min", rows.least},
                                      {"p10", rows.p10},
                                      {"p25", rows.p25},
                                      {"p50", rows.p50},
                                      {"p75", rows.p75},
                                      {"p90", rows.p90},
                                      {"p99", rows.p99},
                                      {"max", rows.most}})
      text += fmt::format(", {} {}", name, value);
    paragraph(text, 17);
  }

  void distribution() {
    if (report_.totals.batches_with_rows == 0) return;
    print("\nDistribution over batches of all layers\n");
    quantiles("rows per expert", report_.rows_per_expert);
    quantiles("rows per batch", report_.rows_per_batch);
  }

  void cost_table() {
    const RoutingFigures& figures = report_.totals;
    if (figures.batches_with_rows == 0) return;
    const double batches = static_cast<double>(figures.batches_with_rows);
    const bool widths = report_.options.model.has_value();
    print("\n{:<{}}{:>14}", "Cost of a batch (mean)", std::max<std::size_t>(name_width_, 22), "metadata");
    if (widths) print("{:>18}{:>18}{:>18}", "padding bytes", "useful FLOPs", "scheduled FLOPs");
    print("\n");
    for (std::size_t i = 0; i < figures.policies.size(); ++i) {
      const PolicyFigures& policy = figures.policies[i];
      print("{:<{}}{:>14}", report_.policies[i].name, std::max<std::size_t>(name_width_, 22),
            policy.metadata_bytes ? byte_count(static_cast<double>(*policy.metadata_bytes) / batches)
                                  : "unknown");
      if (widths)
        print("{:>18}{:>18}{:>18}", byte_count(*policy.padding_activation_bytes / batches),
              flop_count(*policy.useful_flops / batches), flop_count(*policy.scheduled_flops / batches));
      print("\n");
    }
    if (widths) {
      const ModelShape& model = *report_.options.model;
      paragraph(fmt::format(
          "A batch reads {} of expert weights and moves {} of useful activations (both products, "
          "forward, {}). FLOPs are {}: {}, forward.",
          byte_count(*figures.weight_bytes / batches), byte_count(*figures.activation_bytes / batches),
          element_name(model.dtype), flops_formula(model.mlp), mlp_kind_name(model.mlp)));
    }
  }

  void ranks() {
    const auto& totals = report_.totals.ranks;
    if (!totals) return;
    print("\nRows of {} contiguous ranks\n", report_.options.ranks);
    for (const LayerFigures& layer : report_.layers) {
      if (layer.dense) continue;
      std::string rows;
      for (const std::int64_t count : layer.figures.ranks->rows_per_rank) rows += ' ' + grouped(count);
      paragraph(fmt::format("layer {}:{}", layer.layer, rows), 4);
    }
    paragraph(fmt::format("The fullest rank of a batch has {:.2f} times the mean rows ({:.2f} at worst).",
                          totals->max_over_mean, totals->max_over_mean_max));
    print("{}", placements_text(report_));
  }

  void tiles() {
    const auto& tiles = report_.totals.tiles;
    if (!tiles) return;
    print("\n");
    paragraph(fmt::format(
        "On {} SMs the up product takes {} tiles{} in {} waves: {} % of the SM slots idle; the last wave of "
        "a batch is "
        "{} % idle on average. The fullest expert has {} % of a batch's scheduled rows ({} % at worst).",
        report_.options.sms, grouped(tiles->tiles),
        report_.options.model ? "" : " (one column of tiles: widths are not given)", grouped(tiles->waves),
        percent(tiles->idle_share), percent(tiles->idle_share_of_last_wave),
        percent(tiles->longest_expert_share), percent(tiles->longest_expert_share_max)));
  }

  void record() {
    print("\nRecord\n");
    for (const RecordEntry& entry : record_entries(report_))
      paragraph(fmt::format("{:<14} {}", entry.key, entry.text), 15);
    paragraph(fmt::format("{:<14} {}", "percentiles", percentiles_method(report_)), 15);
    std::string missing;
    for (const std::string& thing : not_included(report_)) missing += (missing.empty() ? "" : "; ") + thing;
    paragraph(fmt::format("{:<14} {}", "not included", missing), 15);
    for (const Policy& policy : report_.policies)
      paragraph(fmt::format("{:<14} {}: {}", policy.name, policy.source, policy.formula), 15);
    print("Definitions: dropless report --explain metrics\n");
  }

  const Report& report_;
  std::size_t name_width_ = 12;
  fmt::memory_buffer out_;
};

}  // namespace

std::string report_text(const Report& report) { return TextReport(report).str(); }

}  // namespace dropless
