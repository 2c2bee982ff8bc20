// The options by which a command learns a GPU: --hardware, or --peak --bandwidth --sms, or a mixture; and
// --calibrate, which fits the time model to measured products.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dropless/calibration.hpp"

namespace CLI {
class App;
}

/// Lives as long as the command (its options point into it).
class HardwareOptions {
 public:
  explicit HardwareOptions(CLI::App& command);
  HardwareOptions(const HardwareOptions&) = delete;

  /// The fit that --calibrate asks for, or nothing.
  std::optional<dropless::Calibration> calibration() const;
  /// The time model, or nothing where no hardware was given. Without --hardware it is the calibration's GPU.
  /// `sms` is what --sms says, 0 for nothing. Throws Error where a figure is missing.
  std::optional<dropless::TimeModel> time_model(const std::optional<dropless::Calibration>& calibration,
                                                std::int64_t sms) const;

 private:
  std::string hardware_, measurements_;
  double peak_ = 0, bandwidth_ = 0;
};
