// From the command line's words to ReportOptions.
#include "report_options.hpp"

#include <CLI/CLI.hpp>

ReportFigures::ReportFigures(CLI::App& command) : widths_(command), hardware_(command) {
  command
      .add_option("--policy", options_.policies,
                  "Layout policy, any number of times (report --explain policies lists them)")
      ->allow_extra_args(false);
  ranks_ = command.add_option("--ranks", options_.ranks, "Expert-parallel ranks")->check(CLI::PositiveNumber);
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
  command.add_option("--sms", options_.sms, "Multiprocessors, to count tiles and waves")
      ->check(CLI::PositiveNumber);
  command.add_option("--threads", options_.workers, "Threads (default: one a core)")
      ->check(CLI::Range(1, 1024));
}

dropless::ReportOptions ReportFigures::options(
    const std::optional<dropless::Calibration>& calibration) const {
  dropless::ReportOptions options = options_;
  options.model = widths_.shape();
  options.time = hardware_.time_model(calibration, options.sms);
  if (options.time) options.sms = options.time->hardware.sms;
  return options;
}
