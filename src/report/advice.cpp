// Policies are compared by the sum of their batches' times, those that keep every row apart from those that
// drop some.
#include "report/advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "report/record.hpp"
#include "report/text_format.hpp"

namespace dropless {
namespace {

double time_of(const PolicyFigures& policy) { return policy.time->us; }

bool is_exact(const PolicyFigures& policy) { return policy.dropped_rows == 0 && policy.added_rows == 0; }

bool same_time(double us, double reference) { return std::abs(us - reference) < 0.0005 * reference; }

/// A policy that drops most rows saves time by not answering.
bool drops_some(const PolicyFigures& policy) {
  return policy.dropped_rows > 0 && policy.dropped_rows <= policy.kept_rows;
}

/// The policy of least time among those that `is_candidate` accepts; empty where there is none.
std::optional<std::size_t> fastest(const RoutingFigures& figures,
                                   bool (*is_candidate)(const PolicyFigures&)) {
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < figures.policies.size(); ++i) {
    const PolicyFigures& policy = figures.policies[i];
    if (!is_candidate(policy)) continue;
    if (!best || time_of(policy) < time_of(figures.policies[*best])) best = i;
  }
  return best;
}

/// "3.1 % more", "3.1 % less", "the same".
std::string compared(double us, double reference) {
  const double more = us / reference - 1;
  if (same_time(us, reference)) return "the same";
  return fmt::format("{} % {}", percent(std::abs(more)), more > 0 ? "more" : "less");
}

std::string fastest_line(const Report& report, const RoutingFigures& figures, std::size_t best) {
  const double least = time_of(figures.policies[best]);
  std::size_t slowest = best;
  std::int64_t ties = 0;
  for (std::size_t i = 0; i < figures.policies.size(); ++i) {
    if (!is_exact(figures.policies[i])) continue;
    if (time_of(figures.policies[i]) > time_of(figures.policies[slowest])) slowest = i;
    ties += i != best && same_time(time_of(figures.policies[i]), least);
  }
  const bool all_alike = same_time(time_of(figures.policies[slowest]), least);
  if (all_alike && ties > 0)
    return "The policies that compute exactly the router's choice all take the same time (time_us).";
  std::string line = fmt::format("Of the policies that compute exactly the router's choice, {}{} least time",
                                 report.policies[best].name,
                                 ties == 0 ? " takes" : fmt::format(" and {} take", counted(ties, "other")));
  if (!all_alike)
    line += fmt::format(", {} {}", report.policies[slowest].name,
                        compared(time_of(figures.policies[slowest]), least));
  return line + " (time_us).";
}

std::string bound_line(const Report& report, const RoutingFigures& figures, std::size_t best) {
  const double share = figures.policies[best].time->memory_bound_share;
  const std::string start =
      fmt::format("{} % of {}'s batches are bound by memory (memory_bound_share): ", percent(share),
                  report.policies[best].name);
  if (share < 0.5) return start + "in most batches scheduled rows set the time, so padding costs.";
  return start +
         fmt::format(
             "there its padding is nearly free, and the {:.1f} active experts of a batch (active_experts) "
             "set the time.",
             static_cast<double>(figures.active_experts) / static_cast<double>(figures.batches_with_rows));
}

std::string dropping_line(const Report& report, const RoutingFigures& figures, std::size_t dropping,
                          std::size_t best) {
  const PolicyFigures& policy = figures.policies[dropping];
  return fmt::format(
      "{} drops {} % of the rows (dropped_rows) and takes {} time than {} (time_us).",
      report.policies[dropping].name,
      percent(static_cast<double>(policy.dropped_rows) / static_cast<double>(figures.useful_rows)),
      compared(time_of(policy), time_of(figures.policies[best])), report.policies[best].name);
}

/// Of placements that were fitted, what the batches say which the fit has not seen.
const RankBalance& scored(const PlacementFigures& placement) {
  return placement.second_half ? *placement.second_half : placement.all;
}

/// Empty where no placement has a time.
std::string placement_line(const std::vector<PlacementFigures>& placements) {
  const auto by_time = [](const PlacementFigures& a, const PlacementFigures& b) {
    return scored(a).slowest_rank->us < scored(b).slowest_rank->us;
  };
  for (const PlacementFigures& placement : placements)
    if (!scored(placement).slowest_rank) return "";
  if (placements.size() < 2) return "";
  const auto [least, most] = std::minmax_element(placements.begin(), placements.end(), by_time);
  const double us = scored(*least).slowest_rank->us;
  std::string line = "Of the placements, ";
  if (same_time(scored(*most).slowest_rank->us, us))
    line += "all take the same time on a batch's slowest rank";
  else
    line += fmt::format("{} takes least time on a batch's slowest rank, {} {}", least->placement,
                        most->placement, compared(scored(*most).slowest_rank->us, us));
  return line + (least->second_half ? ", over the batches that no placement was fitted to" : "") +
         " (slowest_rank_time_us).";
}

}  // namespace

std::vector<std::string> what_to_do(const Report& report) {
  const RoutingFigures& figures =
      report.totals_without_warmup ? *report.totals_without_warmup : report.totals;
  if (figures.batches_with_rows == 0) return {};
  if (report.trace.cumulative)
    return {"Record rows per batch: these counts cover a whole run, which decides no layout and no time."};
  if (!models_time(report))
    return {
        "Give the widths (--model, or --mlp --d-model --d-ff): rows alone name no cheapest policy.",
        fmt::format("An active expert has {:.1f} rows in a batch on average (useful_rows / "
                    "active_experts).",
                    static_cast<double>(figures.useful_rows) / static_cast<double>(figures.active_experts))};
  const std::optional<std::size_t> best = fastest(figures, is_exact), dropping = fastest(figures, drops_some);
  std::vector<std::string> lines;
  if (best) {
    lines.push_back(fastest_line(report, figures, *best));
    const std::string placement = report.totals.ranks ? placement_line(report.totals.ranks->placements) : "";
    if (!placement.empty()) lines.push_back(placement);
    lines.push_back(bound_line(report, figures, *best));
    if (dropping && placement.empty()) lines.push_back(dropping_line(report, figures, *dropping, *best));
  }
  return lines;
}

}  // namespace dropless
