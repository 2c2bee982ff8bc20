// The `dropless` program: parses the command line, runs one subcommand, and turns every error into one line
// on stderr and exit code 2.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "commands.hpp"
#include "interrupt.hpp"

namespace {

/// CLI11 says no more than that a subcommand is required, and lists words that nothing takes backwards.
std::string refusal(const CLI::App& program, const CLI::ParseError& error) {
  if (!program.get_subcommands().empty()) {
    if (error.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) return error.what();
    const std::vector<std::string> words = program.remaining(true);
    return fmt::format("'{}' {} not understood", fmt::join(words, " "), words.size() == 1 ? "is" : "are");
  }
  std::string commands;
  for (const CLI::App* command : program.get_subcommands({}))
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  const std::vector<std::string> words = program.remaining();
  return words.empty() ? "a command is missing; expected one of " + commands
                       : fmt::format("'{}' is no command; expected one of {}", words[0], commands);
}

}  // namespace

int main(int argc, char** argv) {
  end_cleanly_when_interrupted();
  CLI::App program("What a Mixture-of-Experts routing trace costs, and the layouts behind it", "dropless");
  program.require_subcommand(1);
  program.set_help_all_flag("--help-all", "Print the help of every command");
  program.set_version_flag("--version", "dropless " DROPLESS_VERSION, "Print the version and exit");
  add_report_command(program);
  add_compare_command(program);
  add_topology_command(program);
  add_synth_command(program);
  add_roofline_command(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program.exit(error);  // --help
    std::fprintf(stderr, "dropless: %s (--help shows what is understood)\n", refusal(program, error).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dropless: %s\n", error.what());
    return 2;
  }
  return 0;
}
