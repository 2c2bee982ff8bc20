// `dropless_bench`: times the device calls beside their peers on the current GPU. Every error becomes one
// line on stderr and exit code 2.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "commands.hpp"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  CLI::App program("Times dropless on this GPU, beside its peers, in one process", "dropless_bench");
  program.require_subcommand(1);
  program.set_help_all_flag("--help-all", "Print the help of every command");
  add_bandwidth_command(program);
  add_topology_command(program);
  add_products_command(program);
  add_blocked_command(program);
  add_layer_command(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return program.exit(error) == 0 ? 0 : 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "dropless_bench: %s\n", error.what());
    return 2;
  }
  return 0;
}
