// The options by which a command that makes reports learns which figures they hold: policies, ranks and
// their placements, widths, hardware, and threads.
#pragma once
#include <optional>

#include "dropless/report.hpp"
#include "hardware_options.hpp"
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
  std::optional<dropless::Calibration> calibration() const { return hardware_.calibration(); }
  /// What the options ask for, with the time model of that fit where there is one.
  dropless::ReportOptions options(const std::optional<dropless::Calibration>& calibration) const;
  CLI::Option* ranks() const { return ranks_; }

 private:
  ShapeOptions widths_;
  HardwareOptions hardware_;
  dropless::ReportOptions options_;
  CLI::Option* ranks_ = nullptr;
};
