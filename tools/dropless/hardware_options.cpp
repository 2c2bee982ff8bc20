// A GPU and its time model from the command line.
#include "hardware_options.hpp"

#include <CLI/CLI.hpp>

using namespace dropless;

HardwareOptions::HardwareOptions(CLI::App& command) {
  command.add_option("--hardware", hardware_,
                     "GPU to model times of (data/hardware.json): A100, H100 or H200");
  command.add_option("--peak", peak_, "Peak of the matrix arithmetic, GFLOP/s, instead of the GPU's")
      ->check(CLI::PositiveNumber);
  command.add_option("--bandwidth", bandwidth_, "Memory bandwidth, GB/s, instead of the GPU's")
      ->check(CLI::PositiveNumber);
  command.add_option("--calibrate", measurements_,
                     "Fit the time model to the products measured in this file (data/benchmarks/h200.json)");
}

std::optional<Calibration> HardwareOptions::calibration() const {
  if (measurements_.empty()) return std::nullopt;
  return calibrate(measurements_);
}

std::optional<TimeModel> HardwareOptions::time_model(const std::optional<Calibration>& calibration,
                                                     std::int64_t sms) const {
  const bool stated = peak_ > 0 || bandwidth_ > 0;
  if (hardware_.empty() && !stated && !calibration) return std::nullopt;
  TimeModel model = calibration ? calibration->model : TimeModel{};
  if (!hardware_.empty())
    model.hardware = find_hardware(hardware_);
  else if (!calibration && (peak_ == 0 || bandwidth_ == 0 || sms == 0))
    throw Error("the hardware", "incomplete", "--peak, --bandwidth and --sms together, or --hardware");
  HardwareProfile& hardware = model.hardware;
  if (peak_ > 0) hardware.bf16_peak = hardware.fp16_peak = hardware.fp32_peak = peak_;
  if (bandwidth_ > 0) hardware.bandwidth = bandwidth_;
  if (sms > 0) hardware.sms = sms;
  if (hardware.name.empty()) hardware.name = "hardware from the command line";
  if (stated)
    hardware.source += hardware.source.empty() ? "the command line" : "; changed on the command line";
  return model;
}
