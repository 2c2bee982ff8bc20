// What a knob does: reports on one trace cut into batches of several sizes, and policies that differ in their
// capacity factor alone, each as a curve.
#pragma once
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "dropless/report.hpp"

namespace dropless {

/// The report on the trace cut into batches of that many tokens.
struct SweepPoint {
  std::int64_t batch_tokens = 0;
  Report report;
};

/// Which batches do not have their point's tokens: those of sizes above a layer's tokens, and a layer's last
/// ones. A sentence each; none where every batch is full or tokens are not known.
std::vector<std::string> size_notes(std::span<const SweepPoint> points);

/// Opens the trace cut into batches of that many tokens.
using OpenCut = std::function<std::unique_ptr<Trace>(std::int64_t batch_tokens)>;

/// A point for each of `sizes`, in their order, one for a size that is named twice, each of them what
/// make_report() makes of the trace cut into that size. Sizes that divide one another are read together,
/// once.
std::vector<SweepPoint> make_sweep(const std::vector<std::int64_t>& sizes, const OpenCut& open,
                                   const ReportOptions& options, Progress progress = nullptr,
                                   void* context = nullptr);

/// Padding by policy against batch size, in at most 100 columns, after notes that name the sizes which a
/// layer's tokens do not fill. All points have the same policies.
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
