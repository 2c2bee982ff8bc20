// The options by which a command that makes reports learns which figures they hold: policies, ranks and
// their placements, widths, threads, and a GPU's time model: --hardware, or --peak --bandwidth --sms, or a
// mixture, and --calibrate, which fits the model to measured products.
#pragma once
#include <optional>
#include <string>

#include "dropless/calibration.hpp"
#include "dropless/report.hpp"
#include "output_paths.hpp"
#include "shape_options.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// Lives as long as the command (its options point into it).
class ReportFigures {
 public:
  explicit ReportFigures(CLI::App& command);
  ReportFigures(const ReportFigures&) = delete;

  /// The fit that --calibrate asks for, or nothing.
  std::optional<dropless::Calibration> calibration() const;
  /// What the options ask for; the time model's parameters are those of the fit, where there is one, and its
  /// GPU too, unless --hardware names another. Throws Error where a figure of the GPU or a width is missing.
  dropless::ReportOptions options(const std::optional<dropless::Calibration>& calibration) const;
  /// What the options name that may be a file to read.
  std::vector<NamedPath> files() const;
  /// Whether a --policy was named.
  bool names_policies() const { return !options_.policies.empty(); }
  CLI::Option* ranks() const { return ranks_; }

 private:
  std::optional<dropless::TimeModel> time_model(
      const std::optional<dropless::Calibration>& calibration) const;

  ShapeOptions widths_;
  dropless::ReportOptions options_;
  std::string hardware_, measurements_;
  double peak_ = 0, bandwidth_ = 0;
  CLI::Option* ranks_ = nullptr;
};
