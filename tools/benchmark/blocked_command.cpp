// `dropless_bench blocked`: block-sparse products beside the packed ones of the same routing, as a table and
// as JSON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "blocked_benchmark.hpp"
#include "commands.hpp"
#include "device_stream.hpp"
#include "json_file.hpp"

namespace {

using namespace dropless;
using namespace dropless::benchmark;

struct BlockedOptions {
  std::string cases_path, only, json_path;
  std::vector<std::int64_t> blocks = {128, 64};
  RotationOptions rotation;
};

double tflops(const BlockedResult& result, const Timing& timing) {
  return 1e-6 * result.flops / timing.median_us;
}

nlohmann::ordered_json to_json(const BenchmarkCase& one, std::int64_t block, const BlockedResult& result) {
  return {{"case", one.name},
          {"block", block},
          {"product", result.product},
          {"blocked_path", result.hopper ? "sm90" : "portable"},
          {"packed_us", result.packed.median_us},
          {"blocked_us", result.blocked.median_us},
          {"blocked_portable_us", result.blocked_portable.median_us},
          {"spread", {result.packed.spread, result.blocked.spread, result.blocked_portable.spread}},
          {"error", result.error}};
}

void run_blocked(const BlockedOptions& options) {
  const DeviceStream stream;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  fmt::print("{:<32} {:>5} {:>8} {:>9} {:>10} {:>8} {:>10} {:>8} {:>11} {:>9}\n", "case", "block", "product",
             "path", "packed us", "TFLOP/s", "blocked us", "TFLOP/s", "portable us", "error");
  for (const BenchmarkCase& one : read_benchmark_cases(options.cases_path)) {
    if (one.rows() == 0 || one.name.find(options.only) == std::string::npos) continue;
    for (const std::int64_t block : options.blocks) {
      if (one.d_ff % block != 0) continue;  // no topology of this block
      for (const BlockedResult& result : measure_blocked(one, block, options.rotation, stream)) {
        fmt::print("{:<32} {:>5} {:>8} {:>9} {:>10.1f} {:>8.1f} {:>10.1f} {:>8.1f} {:>11.1f} {:>9.2g}\n",
                   one.name, block, result.product, result.hopper ? "sm90" : "portable",
                   result.packed.median_us, tflops(result, result.packed), result.blocked.median_us,
                   tflops(result, result.blocked), result.blocked_portable.median_us, result.error);
        json.push_back(to_json(one, block, result));
      }
    }
  }
  if (json.empty())
    throw Error("--only", options.only, "a part of the name of a case with rows that blocks divide");
  if (!options.json_path.empty()) write_json(options.json_path, json);
}

}  // namespace

void add_blocked_command(CLI::App& program) {
  const auto options = std::make_shared<BlockedOptions>();
  CLI::App* command =
      program.add_subcommand("blocked", "Time the block-sparse products beside the packed ones");
  command->add_option("--cases", options->cases_path, "Cases, as data/cases/moe_shapes.json")->required();
  command->add_option("--only", options->only, "Take the cases whose name contains this");
  command->add_option("--blocks", options->blocks, "Blocks to time, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({16, 32, 64, 128}))
      ->capture_default_str();
  command->add_option("--rounds", options->rotation.rounds, "Rounds of the rotation")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--json", options->json_path, "File for the figures");
  command->callback([options] { run_blocked(*options); });
}
