// One line a placement and figure: all batches, or with balanced the two halves side by side.
#include "report/rank_output.hpp"

#include <fmt/format.h>

#include "report/record.hpp"
#include "report/text_format.hpp"

namespace dropless {
namespace {

std::string balance_columns(const RankBalance& balance) {
  if (balance.batches == 0) return fmt::format("{:>42}", "no batch with rows");
  return fmt::format("{:>10.2f}{:>8.2f}{:>8.2f}{:>8.2f}{:>8.2f}", balance.max_over_mean, balance.p50,
                     balance.p95, balance.p99, balance.max);
}

std::string time_columns(const RankBalance& balance) {
  if (balance.batches == 0) return fmt::format("{:>42}", "no batch with rows");
  const TimeFigures& time = *balance.slowest_rank;
  return fmt::format("{:>12.1f}{:>10.1f}{:>10.1f}{:>10.1f}", time.us / static_cast<double>(balance.batches),
                     time.p50, time.p95, time.p99);
}

/// A line a placement, of all batches or of the two halves side by side.
std::string table(const std::vector<PlacementFigures>& placements, const std::string& columns,
                  std::string (*columns_of)(const RankBalance&)) {
  const bool halves = placements.front().first_half.has_value();
  std::string out = halves ? fmt::format("{:<12}{:>42}{:>42}\n", "", "first half of the batches (fitted)",
                                         "second half (not seen)")
                           : "";
  out += fmt::format("{:<12}{}{}\n", "placement", columns, halves ? columns : "");
  for (const PlacementFigures& placement : placements)
    out += fmt::format("{:<12}{}{}\n", placement.placement,
                       columns_of(halves ? *placement.first_half : placement.all),
                       halves ? columns_of(*placement.second_half) : "");
  return out;
}

nlohmann::ordered_json balance_json(const RankBalance& balance) {
  nlohmann::ordered_json out = {{"batches", balance.batches},
                                {"max_over_mean", balance.max_over_mean},
                                {"max_over_mean_p50", balance.p50},
                                {"max_over_mean_p95", balance.p95},
                                {"max_over_mean_p99", balance.p99},
                                {"max_over_mean_max", balance.max},
                                {"fullest_rank_rows", balance.fullest_rank_rows}};
  const auto add = [&](const char* key, double TimeFigures::*figure) {
    out[key] = nullptr;
    if (balance.slowest_rank) out[key] = *balance.slowest_rank.*figure;
  };
  add("slowest_rank_time_us", &TimeFigures::us);
  add("slowest_rank_time_p50_us", &TimeFigures::p50);
  add("slowest_rank_time_p95_us", &TimeFigures::p95);
  add("slowest_rank_time_p99_us", &TimeFigures::p99);
  return out;
}

}  // namespace

std::string placements_text(const Report& report) {
  const std::vector<PlacementFigures>& placements = report.totals.ranks->placements;
  if (placements.empty()) return "";
  const bool halves = placements.front().first_half.has_value();
  const std::string left_out = report.totals_without_warmup ? ", warm-up left out\n" : "\n";
  std::string out = "\nRows of a batch's fullest rank / mean rows of a rank" + left_out;
  out += table(placements, fmt::format("{:>10}{:>8}{:>8}{:>8}{:>8}", "mean", "p50", "p95", "p99", "max"),
               balance_columns);
  if (models_time(report) && !report.trace.cumulative) {
    out += "\nTime of a batch's slowest rank, us: a model, not a measurement" + left_out;
    out +=
        table(placements, fmt::format("{:>12}{:>10}{:>10}{:>10}", "mean", "p50", "p95", "p99"), time_columns);
  }
  if (halves)
    out += wrapped(
               "balanced is fitted on the rows of the first half of each layer's batches; the others are "
               "shown on the same halves.",
               2) +
           "\n";
  if (report.layers_without_second_half > 0)
    out +=
        wrapped(counted(report.layers_without_second_half, "layer") +
                    " with fewer than two batches: balanced is fitted on all that there is, and nothing is "
                    "left to show what it would buy (--batch, --batch-tokens cut batches).",
                2) +
        "\n";
  for (const PlacementFigures& placement : placements) {
    if (placement.replicas == 0) continue;
    std::string replicas =
        fmt::format("{} holds {} replicas a layer", placement.placement, grouped(placement.replicas));
    if (placement.extra_weight_bytes)
      replicas += fmt::format(": {} more of expert weights over all ranks and layers",
                              byte_count(*placement.extra_weight_bytes));
    out += wrapped(replicas + ".", 2) + "\n";
  }
  return out;
}

nlohmann::ordered_json placements_json(const std::vector<PlacementFigures>& placements) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const PlacementFigures& placement : placements) {
    nlohmann::ordered_json entry = {{"placement", placement.placement}, {"replicas", placement.replicas}};
    entry["extra_weight_bytes"] = nullptr;
    if (placement.extra_weight_bytes) entry["extra_weight_bytes"] = *placement.extra_weight_bytes;
    entry["all"] = balance_json(placement.all);
    entry["first_half"] = nullptr;
    if (placement.first_half) entry["first_half"] = balance_json(*placement.first_half);
    entry["second_half"] = nullptr;
    if (placement.second_half) entry["second_half"] = balance_json(*placement.second_half);
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace dropless
