// `dropless_bench bandwidth`: the memory rates that scores are measured against.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bandwidth.hpp"
#include "commands.hpp"

void add_bandwidth_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("bandwidth", "Print the copy rate and the read-only rate");
  command->callback([] {
    const dropless::benchmark::MemoryRates rates = dropless::benchmark::measure_memory_rates(nullptr);
    std::printf("copy %.3f TB/s (bytes read + written), read-only %.3f TB/s\n", rates.copy_tbps,
                rates.read_tbps);
  });
}
