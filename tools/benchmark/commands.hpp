// The subcommands of `dropless_bench`: each file in this folder adds one to the command line. A command runs
// in its callback and reports trouble by throwing dropless::Error.
#pragma once

namespace CLI {
class App;
}

void add_bandwidth_command(CLI::App& program);
void add_blocked_command(CLI::App& program);
void add_layer_command(CLI::App& program);
void add_products_command(CLI::App& program);
void add_topology_command(CLI::App& program);
