// `dropless compare`: what changed between two traces, or two reports kept as JSON, or one of each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>

#include "commands.hpp"
#include "dropless/report.hpp"
#include "json_file.hpp"
#include "output_file.hpp"
#include "output_paths.hpp"
#include "progress_line.hpp"
#include "report/compare.hpp"
#include "report/report_json.hpp"
#include "report_options.hpp"
#include "trace_arguments.hpp"

namespace {

using Document = nlohmann::ordered_json;

struct CompareArguments {
  explicit CompareArguments(CLI::App& command) : trace(command), figures(command) {}

  TraceArguments trace;
  ReportFigures figures;
  std::string a, b, output;
  bool json = false;
};

/// Whether the file begins as `dropless report --json` does; a trace may be JSON too.
bool is_report(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  for (const char wanted : std::string("{\"schema_version\"")) {
    char letter = 0;
    if (!(file >> letter) || letter != wanted) return false;  // >> passes over white space
  }
  return true;
}

Document document_of(const CompareArguments& arguments, const std::string& path) {
  if (is_report(path)) return dropless::read_json_file<Document>(path);
  const dropless::ReportOptions options = arguments.figures.options(arguments.figures.calibration());
  const auto trace = arguments.trace.open(path, options.model);
  ProgressLine progress;
  return dropless::report_document(dropless::make_report(*trace, options, ProgressLine::update, &progress));
}

/// What a report holds was decided when it was made.
void refuse_policies_of_kept_reports(const CompareArguments& arguments) {
  if (arguments.figures.names_policies() && is_report(arguments.a) && is_report(arguments.b))
    throw dropless::Error("--policy", "given with two kept reports",
                          "a trace: a kept report has the policies that it was made with");
}

void run_compare(const CompareArguments& arguments) {
  std::vector<NamedPath> inputs = arguments.figures.files();
  inputs.insert(inputs.end(), {{"the input a", arguments.a}, {"the input b", arguments.b}});
  refuse_overwriting(inputs, {{"--output", arguments.output}});
  refuse_policies_of_kept_reports(arguments);
  const Document comparison =
      dropless::compare_reports(document_of(arguments, arguments.a), document_of(arguments, arguments.b));
  const std::string text =
      arguments.json ? dropless::json_text(comparison) : dropless::comparison_text(comparison);
  if (arguments.output.empty())
    fmt::print("{}", text);
  else
    dropless::write_output_file(arguments.output, text);
}

}  // namespace

void add_compare_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "compare", "Print what changed between two traces or two reports, layer by layer");
  const auto arguments = std::make_shared<CompareArguments>(*command);
  command->add_option("a", arguments->a, "Before: a trace, or a report written with --json")->required();
  command->add_option("b", arguments->b, "After: a trace, or a report written with --json")->required();
  command->add_flag("--json", arguments->json, "Print JSON (data/report_schema.md)");
  command->add_option("--output,-o", arguments->output, "Write to this file instead of printing");
  command->callback([arguments] { run_compare(*arguments); });
}
