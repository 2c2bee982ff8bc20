// `dropless_bench topology`: the topology builder and the permutations, as a table and as JSON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "bandwidth.hpp"
#include "commands.hpp"
#include "device_stream.hpp"
#include "json_file.hpp"
#include "topology_benchmark.hpp"

namespace {

using namespace dropless;
using namespace dropless::benchmark;

const TopologyPoint topology_points[] = {{1, 8, 128, false},     {16, 8, 128, false},    {64, 8, 128, false},
                                         {512, 8, 128, false},   {4096, 8, 128, false},  {4096, 8, 128, true},
                                         {32768, 8, 128, false}, {32768, 8, 128, true},  {64, 2, 8, false},
                                         {4096, 2, 8, false},    {32768, 2, 8, true},    {2048, 8, 32, false},
                                         {8192, 8, 256, false},  {32768, 8, 4096, false}};
const PermutationPoint permutation_points[] = {
    {4096, 8, 128, 2048}, {4096, 2, 8, 4096},  {8192, 8, 64, 2048}, {32768, 8, 128, 2048},
    {4096, 8, 256, 7168}, {4096, 4, 32, 2880}, {64, 8, 128, 2048}};

nlohmann::ordered_json to_json(const TopologyResult& result) {
  return {{"tokens", result.point.tokens},
          {"top_k", result.point.top_k},
          {"experts", result.point.experts},
          {"routing", result.point.skewed ? "skewed" : "uniform"},
          {"launches", result.launches},
          {"alone_us", result.alone_us},
          {"alone_spread", result.alone_spread},
          {"within_graph_us", result.within_graph_us},
          {"within_graph_spread", result.within_graph_spread},
          {"metadata_bytes", result.metadata_bytes},
          {"workspace_bytes", result.workspace_bytes}};
}

nlohmann::ordered_json to_json(const PermutationResult& result, double copy_tbps) {
  return {{"call", result.call},
          {"tokens", result.point.tokens},
          {"top_k", result.point.top_k},
          {"experts", result.point.experts},
          {"d_model", result.point.d_model},
          {"us", result.us},
          {"spread", result.spread},
          {"bytes", result.bytes},
          {"tbps", result.tbps()},
          {"of_copy_rate", result.tbps() / copy_tbps}};
}

void run_topology(const std::string& json_path) {
  const DeviceStream stream;
  const double copy_tbps = measure_memory_rates(stream).copy_tbps;
  nlohmann::ordered_json json{{"copy_tbps", copy_tbps}};
  fmt::print("copy rate {:.3f} TB/s (bytes read + written)\n\n", copy_tbps);

  fmt::print("{:>7} {:>5} {:>7} {:>8} {:>8} {:>9} {:>7} {:>12} {:>7} {:>14}\n", "tokens", "top_k", "experts",
             "routing", "launches", "alone us", "spread", "in graph us", "spread", "metadata bytes");
  for (const TopologyPoint& point : topology_points) {
    const TopologyResult result = measure_topology(point, stream);
    fmt::print("{:>7} {:>5} {:>7} {:>8} {:>8} {:>9.2f} {:>6.1f}% {:>12.2f} {:>6.1f}% {:>14}\n", point.tokens,
               point.top_k, point.experts, point.skewed ? "skewed" : "uniform", result.launches,
               result.alone_us, 100 * result.alone_spread, result.within_graph_us,
               100 * result.within_graph_spread, result.metadata_bytes);
    json["topology"].push_back(to_json(result));
  }

  fmt::print("\n{:>7} {:>5} {:>7} {:>7} {:>17} {:>9} {:>7} {:>7} {:>12}\n", "tokens", "top_k", "experts",
             "d_model", "call", "us", "spread", "TB/s", "of copy rate");
  for (const PermutationPoint& point : permutation_points)
    for (const PermutationResult& result : measure_permutation(point, stream)) {
      fmt::print("{:>7} {:>5} {:>7} {:>7} {:>17} {:>9.2f} {:>6.1f}% {:>7.3f} {:>12.3f}\n", point.tokens,
                 point.top_k, point.experts, point.d_model, result.call, result.us, 100 * result.spread,
                 result.tbps(), result.tbps() / copy_tbps);
      json["permutation"].push_back(to_json(result, copy_tbps));
    }
  if (!json_path.empty()) write_json(json_path, json);
}

}  // namespace

void add_topology_command(CLI::App& program) {
  const auto json_path = std::make_shared<std::string>();
  CLI::App* command = program.add_subcommand("topology", "Time the topology builder and the permutations");
  command->add_option("--json", *json_path, "Also write the figures to this file");
  command->callback([json_path] { run_topology(*json_path); });
}
