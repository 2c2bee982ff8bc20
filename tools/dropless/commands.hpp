// The subcommands of the `dropless` program: each file in this folder adds one to the command line. A command
// runs in its callback and reports trouble by throwing dropless::Error.
#pragma once

namespace CLI {
class App;
}

void add_compare_command(CLI::App& program);
void add_report_command(CLI::App& program);
void add_roofline_command(CLI::App& program);
void add_synth_command(CLI::App& program);
void add_topology_command(CLI::App& program);
