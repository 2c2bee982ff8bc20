// Curves from reports: tables of them, and the JSON beside a report.
#include "report/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <map>
#include <set>

#include "ratio.hpp"
#include "report/report_json.hpp"
#include "report/report_reading.hpp"
#include "report/text_format.hpp"
#include "traces/nested_batches.hpp"

namespace dropless {
namespace {

double dropped_fraction(const PolicyFigures& policy) {
  return ratio(policy.dropped_rows, policy.kept_rows + policy.dropped_rows);
}

/// A space of two and `share` of `width` characters, at least one; nothing where the share is 0.
std::string bar(double share, std::size_t width) {
  if (share == 0) return "";
  const auto length = static_cast<std::size_t>(share * static_cast<double>(width) + 0.5);
  return "  " + std::string(std::max<std::size_t>(length, 1), '#');
}

/// Takes out of `sizes`, which ascend, the first one and those after it that are multiples of the one taken
/// before.
std::vector<std::int64_t> take_family(std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> family, others;
  for (const std::int64_t size : sizes)
    (family.empty() || size % family.back() == 0 ? family : others).push_back(size);
  sizes = std::move(others);
  return family;
}

/// "30", "30 and 70", "30, 50 and 70".
std::string listed(const std::vector<std::int64_t>& sizes) {
  std::string text;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    text += (i == 0 ? "" : i + 1 == sizes.size() ? " and " : ", ") + grouped(sizes[i]);
  return text;
}

std::int64_t most_tokens_of_a_layer(const Report& report) {
  std::int64_t most = 0;
  for (const LayerFigures& layer : report.layers) most = std::max(most, layer.figures.tokens);
  return most;
}

bool has_shorter_batch(const SweepPoint& point) {
  return std::any_of(point.report.layers.begin(), point.report.layers.end(), [&](const LayerFigures& layer) {
    return layer.figures.tokens < layer.figures.batches * point.batch_tokens;
  });
}

class SweepText {
 public:
  explicit SweepText(const std::vector<SweepPoint>& points) : points_(points) {
    for (const Policy& policy : points[0].report.policies) width_ = std::max(width_, policy.name.size() + 2);
  }

  std::string str() {
    heading();
    constexpr std::size_t column = 9;
    const std::size_t fitting =
        std::max<std::size_t>(1, (text_width - std::min(text_width, width_)) / column);
    for (begin_ = 0; begin_ < points_.size(); begin_ = end_) {
      end_ = std::min(points_.size(), begin_ + fitting);
      table();
    }
    return text_;
  }

 private:
  void heading() {
    const TraceInfo& trace = points_[0].report.trace;
    text_ = wrapped(fmt::format("{} ({}): {}, {}", trace.path, trace.format,
                                counted(static_cast<std::int64_t>(trace.layers.size()), "layer"),
                                counted(trace.experts, "expert")),
                    2) +
            "\n";
    for (const std::string& assumption : trace.assumptions) note(assumption);
    for (const std::string& sentence : size_notes(points_)) note(sentence);
    for (const std::string& warning : points_[0].report.warnings)
      text_ += wrapped("warning: " + warning, 2) + "\n";
  }

  void note(const std::string& sentence) { text_ += wrapped("note: " + sentence, 2) + "\n"; }

  template <class Cell>
  void line(const std::string& name, Cell cell) {
    text_ += fmt::format("{:<{}}", name, width_);
    for (std::size_t i = begin_; i < end_; ++i) text_ += fmt::format("{:>9}", cell(points_[i]));
    text_ += '\n';
  }

  void table() {
    text_ += '\n';
    line("tokens of a batch", [](const SweepPoint& point) { return grouped(point.batch_tokens); });
    line("batches", [](const SweepPoint& point) { return grouped(point.report.totals.batches_with_rows); });
    line("active experts", [](const SweepPoint& point) {
      const RoutingFigures& totals = point.report.totals;
      return fmt::format("{:.1f}",
                         static_cast<double>(totals.active_experts) /
                             static_cast<double>(std::max<std::int64_t>(1, totals.batches_with_rows)));
    });
    line("max / mean",
         [](const SweepPoint& point) { return fmt::format("{:.2f}", point.report.totals.max_over_mean); });
    text_ += "padding % of\n";
    policies([](const PolicyFigures&) { return true; },
             [](const SweepPoint&, const PolicyFigures& policy) { return percent(policy.padding_fraction); });
    if (std::any_of(points_.begin(), points_.end(), [](const SweepPoint& point) {
          return std::any_of(point.report.totals.policies.begin(), point.report.totals.policies.end(), drops);
        })) {
      text_ += "dropped % of\n";
      policies(drops, [](const SweepPoint&, const PolicyFigures& policy) {
        return percent(dropped_fraction(policy));
      });
    }
    if (points_[0].report.options.time) {
      text_ += "modelled microseconds of a batch under\n";
      policies([](const PolicyFigures& policy) { return policy.time.has_value(); }, time_of_a_batch);
    }
  }

  static bool drops(const PolicyFigures& policy) { return policy.dropped_rows > 0; }

  static std::string time_of_a_batch(const SweepPoint& point, const PolicyFigures& policy) {
    const auto batches =
        static_cast<double>(std::max<std::int64_t>(1, point.report.totals.batches_with_rows));
    return fmt::format("{:.1f}", policy.time.value_or(TimeFigures{}).us / batches);
  }

  /// A line for each policy that is `shown` at some size.
  template <class Shown, class Cell>
  void policies(Shown shown, Cell cell) {
    for (std::size_t i = 0; i < points_[0].report.policies.size(); ++i)
      if (std::any_of(points_.begin(), points_.end(),
                      [&](const SweepPoint& point) { return shown(point.report.totals.policies[i]); }))
        line("  " + points_[0].report.policies[i].name,
             [&](const SweepPoint& point) { return cell(point, point.report.totals.policies[i]); });
  }

  const std::vector<SweepPoint>& points_;
  std::size_t width_ = 19, begin_ = 0, end_ = 0;
  std::string text_;
};

}  // namespace

std::vector<std::string> size_notes(std::span<const SweepPoint> points) {
  std::vector<std::int64_t> above, uneven;
  std::int64_t most = 0;
  for (const SweepPoint& point : points) {
    const std::int64_t tokens = most_tokens_of_a_layer(point.report);
    if (tokens == 0) continue;  // not known
    most = std::max(most, tokens);
    if (point.batch_tokens > tokens)
      above.push_back(point.batch_tokens);
    else if (has_shorter_batch(point))
      uneven.push_back(point.batch_tokens);
  }
  std::vector<std::string> notes;
  if (!above.empty())
    notes.push_back(fmt::format("No layer has more than {} tokens: at {} all of a layer is one batch.",
                                grouped(most), listed(above)));
  if (!uneven.empty())
    notes.push_back(
        fmt::format("At {} not every batch is full: one that ends a layer is shorter.", listed(uneven)));
  return notes;
}

std::vector<SweepPoint> make_sweep(const std::vector<std::int64_t>& sizes, const OpenCut& open,
                                   const ReportOptions& options, Progress progress, void* context) {
  const std::set<std::int64_t> different(sizes.begin(), sizes.end());
  std::vector<std::int64_t> left(different.begin(), different.end());
  std::map<std::int64_t, Report> reports;
  while (!left.empty()) {
    const std::vector<std::int64_t> family = take_family(left);
    const std::unique_ptr<Trace> trace = open(family[0]);
    std::vector<std::unique_ptr<ReportReading>> readings;
    std::vector<SizedSink> sinks;
    for (const std::int64_t size : family) {
      readings.push_back(std::make_unique<ReportReading>(trace->info(), options));
      sinks.push_back({size / family[0], &readings.back()->sink()});
    }
    const std::vector<LayerFacts> facts =
        read_nested(*trace, sinks, readings[0]->workers(), progress, context);
    for (std::size_t i = 0; i < family.size(); ++i) {
      CoarserTrace cut(*trace, sinks[i].together);
      reports.emplace(family[i], readings[i]->finish(cut, facts, progress, context));
      readings[i].reset();
    }
  }
  std::vector<SweepPoint> points;
  points.reserve(reports.size());
  for (const std::int64_t size : sizes)
    if (const auto report = reports.find(size); report != reports.end()) {  // named for the first time
      points.push_back({size, std::move(report->second)});
      reports.erase(report);
    }
  return points;
}

std::string sweep_text(const std::vector<SweepPoint>& points) { return SweepText(points).str(); }

nlohmann::ordered_json sweep_document(const std::vector<SweepPoint>& points) {
  nlohmann::ordered_json sizes = nlohmann::ordered_json::array(), document;
  for (const SweepPoint& point : points) {
    document = report_document(point.report);
    sizes.push_back({{"batch_tokens", point.batch_tokens}, {"totals", document["totals"]}});
  }
  document["sweep"]["batch_tokens"] = std::move(sizes);
  for (const std::string& note : size_notes(points)) document["trace"]["assumptions"].push_back(note);
  return document;
}

std::vector<CapacityCurve> capacity_curves(const Report& report) {
  std::vector<CapacityCurve> curves;
  for (std::size_t i = 0; i < report.policies.size(); ++i) {
    const std::string& name = report.policies[i].name;
    constexpr std::size_t begin = 9;
    if (name.compare(0, begin, "capacity:") != 0) continue;
    const std::size_t colon = name.find(':', begin);
    CapacityPoint point{0, report.totals.policies[i].padding_fraction,
                        dropped_fraction(report.totals.policies[i])};
    std::from_chars(name.data() + begin, name.data() + colon, point.factor);  // make_policy() understood it
    const std::string system = name.substr(colon + 1);
    auto curve = std::find_if(curves.begin(), curves.end(),
                              [&](const CapacityCurve& one) { return one.system == system; });
    if (curve == curves.end()) curve = curves.insert(curve, {system, {}});
    curve->points.push_back(point);
  }
  for (CapacityCurve& curve : curves)
    std::stable_sort(curve.points.begin(), curve.points.end(),
                     [](const CapacityPoint& a, const CapacityPoint& b) { return a.factor < b.factor; });
  curves.erase(std::remove_if(curves.begin(), curves.end(),
                              [](const CapacityCurve& curve) { return curve.points.size() < 2; }),
               curves.end());
  return curves;
}

std::string capacity_text(const Report& report) {
  constexpr std::size_t bar_width = 32;
  std::string text;
  for (const CapacityCurve& curve : capacity_curves(report)) {
    text += fmt::format("\nCapacity factor ({})\n{:<10}{:>10}  {:<{}}{:>10}\n", curve.system, "factor",
                        "padding %", "", bar_width, "dropped %");
    for (const CapacityPoint& point : curve.points)
      text += fmt::format("{:<10.6g}{:>10}{:<{}}{:>10}{}\n", point.factor, percent(point.padding_fraction),
                          bar(point.padding_fraction, bar_width), bar_width + 2,
                          percent(point.dropped_fraction), bar(point.dropped_fraction, bar_width));
  }
  return text;
}

}  // namespace dropless
