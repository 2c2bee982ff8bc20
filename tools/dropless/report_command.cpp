// `dropless report`: reads a trace and prints what its routing costs under each layout policy.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "commands.hpp"
#include "dropless/report.hpp"
#include "explain.hpp"
#include "output_file.hpp"
#include "output_paths.hpp"
#include "progress_line.hpp"
#include "report/batch_csv.hpp"
#include "report/html_page.hpp"
#include "report/report_json.hpp"
#include "report/sweep.hpp"
#include "report_options.hpp"
#include "trace_arguments.hpp"

namespace {

struct ReportArguments {
  explicit ReportArguments(CLI::App& command) : trace(command), figures(command) {}

  TraceArguments trace;
  ReportFigures figures;
  std::string path, explain, output, html, per_batch, placement_output;
  bool json = false, csv = false;
};

void write_batches(const std::string& path, dropless::Trace& trace, const dropless::Report& report) {
  dropless::OutputFile file(path);
  ProgressLine progress;
  dropless::write_batch_csv(
      trace, report, [&file](std::string_view text) { file.write(text); }, ProgressLine::update, &progress);
  file.finish();
}

void write_placement(const std::string& path, const dropless::Report& report) {
  std::vector<std::vector<std::int64_t>> rows_per_expert;
  for (const dropless::LayerFigures& layer : report.layers)
    rows_per_expert.push_back(layer.without_warmup.value_or(layer.figures).rows_per_expert);
  dropless::write_output_file(path, dropless::placement_json(*report.placement, rows_per_expert));
}

dropless::Report report_with_progress(dropless::Trace& trace, const dropless::ReportOptions& options) {
  ProgressLine progress;
  return dropless::make_report(trace, options, ProgressLine::update, &progress);
}

void print_or_write(const ReportArguments& arguments, const std::string& text) {
  if (arguments.output.empty())
    fmt::print("{}", text);
  else
    dropless::write_output_file(arguments.output, text);
}

/// One report for each batch size.
void run_sweep(const ReportArguments& arguments, const dropless::ReportOptions& options) {
  if (arguments.csv || !arguments.per_batch.empty() || !arguments.placement_output.empty())
    throw dropless::Error("--batch-tokens", "a list",
                          "one size with --csv, --per-batch or --write-placement");
  ProgressLine progress;
  const std::vector<dropless::SweepPoint> points = dropless::make_sweep(
      arguments.trace.batch_sizes(),
      [&](std::int64_t size) { return arguments.trace.open(arguments.path, options.model, size); }, options,
      ProgressLine::update, &progress);
  const auto document = [&] { return dropless::sweep_document(points); };
  if (!arguments.html.empty()) dropless::write_output_file(arguments.html, dropless::html_page(document()));
  print_or_write(arguments, arguments.json ? dropless::json_text(document()) : dropless::sweep_text(points));
}

void refuse_overwriting(const ReportArguments& arguments) {
  std::vector<NamedPath> inputs = arguments.figures.files();
  inputs.push_back({"the trace", arguments.path});
  refuse_overwriting(inputs, {{"--output", arguments.output},
                              {"--html", arguments.html},
                              {"--per-batch", arguments.per_batch},
                              {"--write-placement", arguments.placement_output}});
}

void run_report(const ReportArguments& arguments) {
  refuse_overwriting(arguments);
  if (!arguments.explain.empty()) {
    print_or_write(arguments, explanation(arguments.explain));
    return;
  }
  const auto calibration = arguments.figures.calibration();
  if (arguments.path.empty() && calibration) {
    print_or_write(arguments, dropless::calibration_text(*calibration));
    return;
  }
  if (arguments.path.empty())
    throw dropless::Error("the trace", "missing", "a file, or a folder of per-rank files");
  const dropless::ReportOptions options = arguments.figures.options(calibration);
  if (arguments.trace.batch_sizes().size() > 1) {
    run_sweep(arguments, options);
    return;
  }
  const auto trace = arguments.trace.open(arguments.path, options.model);
  const std::vector<std::int64_t>& sizes = arguments.trace.batch_sizes();
  dropless::SweepPoint point{sizes.empty() ? 0 : sizes[0], report_with_progress(*trace, options)};
  dropless::Report& report = point.report;
  if (!sizes.empty())
    for (const std::string& note : dropless::size_notes({&point, 1}))
      report.trace.assumptions.push_back(note);
  const std::string text = arguments.json  ? dropless::report_json(report)
                           : arguments.csv ? dropless::report_csv(report)
                                           : dropless::report_text(report);
  if (!arguments.html.empty())
    dropless::write_output_file(arguments.html, dropless::html_page(dropless::report_document(report)));
  if (!arguments.per_batch.empty()) write_batches(arguments.per_batch, *trace, report);
  if (!arguments.placement_output.empty()) write_placement(arguments.placement_output, report);
  print_or_write(arguments, text);
}

}  // namespace

void add_report_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("report", "Print what a routing trace costs under each layout policy");
  const auto arguments = std::make_shared<ReportArguments>(*command);
  command->add_option("trace", arguments->path, "Trace file, or a folder of per-rank files");
  command->add_option(
      "--explain", arguments->explain,
      "Print what a policy or a figure counts and where it is from; or policies, metrics, metadata");
  command->add_option("--write-placement", arguments->placement_output, "Write the placement to this file")
      ->needs(arguments->figures.ranks());
  CLI::Option* json = command->add_flag("--json", arguments->json, "Print JSON (data/report_schema.md)");
  command->add_flag("--csv", arguments->csv, "Print a line for each layer and policy")->excludes(json);
  command->add_option("--html", arguments->html,
                      "Also write one self-contained page with pictures to this file");
  command->add_option("--per-batch", arguments->per_batch,
                      "Also write a CSV line for each batch, layer and policy to this file");
  command->add_option("--output,-o", arguments->output, "Write to this file instead of printing");
  command->callback([arguments] { run_report(*arguments); });
}
