// From the command line's words to ReportOptions.
#include "report_options.hpp"

#include <CLI/CLI.hpp>

#include "above_zero.hpp"

using namespace dropless;

ReportFigures::ReportFigures(CLI::App& command) : widths_(command) {
  command.add_option("--hardware", hardware_,
                     "GPU to model times of (data/hardware.json): A100, H100 or H200");
  command.add_option("--peak", peak_, "Peak of the matrix arithmetic, GFLOP/s, instead of the GPU's")
      ->check(above_zero);
  command.add_option("--bandwidth", bandwidth_, "Memory bandwidth, GB/s, instead of the GPU's")
      ->check(above_zero);
  command.add_option("--calibrate", measurements_,
                     "Fit the time model to the products measured in this file (data/benchmarks/h200.json)");
  command.add_option("--sms", options_.sms, "Multiprocessors, to count tiles and waves")->check(above_zero);
  command
      .add_option("--policy", options_.policies,
                  "Layout policy, any number of times (report --explain policies lists them)")
      ->allow_extra_args(false);
  ranks_ = command.add_option("--ranks", options_.ranks, "Expert-parallel ranks")->check(above_zero);
  command
      .add_option("--placement", options_.placement,
                  "Experts on ranks: contiguous, strided, balanced (by the first half of the batches) or a "
                  "JSON file with physical_to_logical_map")
      ->needs(ranks_);
  command
      .add_option("--replicas", options_.replicas,
                  "With balanced: extra expert slots a layer, for the heaviest experts")
      ->check(CLI::NonNegativeNumber)
      ->needs(ranks_);
  command.add_option("--threads", options_.workers, "Threads (default: one a core)")
      ->check(CLI::Range(1, 1024));
}

std::optional<Calibration> ReportFigures::calibration() const {
  if (measurements_.empty()) return std::nullopt;
  return calibrate(measurements_);
}

ReportOptions ReportFigures::options(const std::optional<Calibration>& calibration) const {
  ReportOptions options = options_;
  options.model = widths_.shape();
  options.time = time_model(calibration);
  if (options.time) options.sms = options.time->hardware.sms;
  return options;
}

std::vector<NamedPath> ReportFigures::files() const {
  return {{"--calibrate", measurements_}, {"--placement", options_.placement}, {"--model", widths_.model()}};
}

std::optional<TimeModel> ReportFigures::time_model(const std::optional<Calibration>& calibration) const {
  const bool stated = peak_ > 0 || bandwidth_ > 0;
  if (hardware_.empty() && !stated && !calibration) return std::nullopt;
  TimeModel model = calibration ? calibration->model : TimeModel{};
  if (!hardware_.empty())
    model.hardware = find_hardware(hardware_);
  else if (!calibration && (peak_ == 0 || bandwidth_ == 0 || options_.sms == 0))
    throw Error("the hardware", "incomplete", "--peak, --bandwidth and --sms together, or --hardware");
  HardwareProfile& hardware = model.hardware;
  if (peak_ > 0) hardware.bf16_peak = hardware.fp16_peak = hardware.fp32_peak = peak_;
  if (bandwidth_ > 0) hardware.bandwidth = bandwidth_;
  if (options_.sms > 0) hardware.sms = options_.sms;
  if (hardware.name.empty()) hardware.name = "hardware from the command line";
  if (stated)
    hardware.source += hardware.source.empty() ? "the command line" : "; changed on the command line";
  return model;
}
