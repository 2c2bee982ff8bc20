// What a knob does: reports on one trace cut into batches of several sizes, and policies that differ in their
// capacity factor alone, each as a curve.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "dropless/report.hpp"

namespace dropless {

/// The report on the trace cut into batches of that many tokens.
struct SweepPoint {
  std::int64_t batch_tokens = 0;
  Report report;
};

/// Padding by policy against batch size, in at most 100 columns. All points have the same policies.
std::string sweep_text(const std::vector<SweepPoint>& points);

/// The document of the last point's report whose `sweep` holds the totals of every point.
nlohmann::ordered_json sweep_document(const std::vector<SweepPoint>& points);

/// One policy family at one capacity factor.
struct CapacityPoint {
  double factor = 0, padding_fraction = 0, dropped_fraction = 0;
};
struct CapacityCurve {
  std::string system;                 ///< "megatron": the last word of the policies' names
  std::vector<CapacityPoint> points;  ///< two or more, by ascending factor
};

/// The report's capacity policies, where a system has at least two factors; over the totals.
std::vector<CapacityCurve> capacity_curves(const Report& report);

/// Those curves as a table with bars; empty where there is none.
std::string capacity_text(const Report& report);

}  // namespace dropless
