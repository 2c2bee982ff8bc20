// `dropless report`: reads a trace and prints what its routing costs under each layout policy.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "commands.hpp"
#include "dropless/trace.hpp"

void add_report_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("report", "Print what a routing trace costs under each layout policy");
  const auto path = std::make_shared<std::string>();
  command->add_option("trace", *path, "Trace file, or a folder of per-rank files")->required();
  command->callback([path] { throw dropless::Error("trace", *path, "a format that this build can read"); });
}
