// `dropless_bench products`: the expert products of every case beside cuBLAS, as a table and as JSON.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "device_stream.hpp"
#include "json_file.hpp"
#include "owned_topology.hpp"
#include "product_report.hpp"

namespace {

using namespace dropless;
using namespace dropless::benchmark;

struct CommandOptions {
  std::string cases_path;
  std::string only;
  std::vector<std::string> products = {"up", "down"};
  std::vector<std::string> peers = {"dense", "loop", "streams", "grouped"};
  std::string json_path;
  std::string commit = DROPLESS_COMMIT;
  std::int64_t gradient_rows = 4096;
  RowTileRule tile_rule;
  ProductBenchmarkOptions benchmark;
};

std::vector<BenchmarkCase> selected_cases(const CommandOptions& options) {
  std::vector<BenchmarkCase> cases = read_benchmark_cases(options.cases_path);
  cases.erase(std::remove_if(cases.begin(), cases.end(),
                             [&](const BenchmarkCase& c) {
                               return c.rows() == 0 || c.name.find(options.only) == std::string::npos;
                             }),
              cases.end());
  if (cases.empty()) throw Error("--only", options.only, "a part of the name of a case with rows");
  return cases;
}

/// Gradients are for training: cases with few rows have none.
std::vector<Product> products_of(const BenchmarkCase& benchmark_case, const CommandOptions& options) {
  std::vector<Product> products;
  for (const std::string& name : options.products) {
    const Product product = *product_from_name(name);
    const bool gradient = is_input_gradient(product) || is_weight_gradient(product);
    if (!gradient || benchmark_case.rows() >= options.gradient_rows) products.push_back(product);
  }
  return products;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> peers_not_run(const CommandOptions& options) {
  std::vector<std::string> names;
  for (const char* peer : {"loop", "streams", "grouped"})
    if (!contains(options.peers, peer)) names.push_back(std::string("cublas_") + peer);
  for (const char* peer : {"torch_grouped", "scattermoe", "stk"}) names.emplace_back(peer);
  return names;
}

std::int64_t rows_scheduled(const BenchmarkCase& benchmark_case, RowTileRule rule) {
  std::int64_t sum = 0;
  for (const std::int64_t rows : benchmark_case.rows_per_expert) sum += scheduled_rows(rows, rule);
  return sum;
}

double topology_us(const OwnedTopology& owner, const CommandOptions& options, Stream stream) {
  RotationOptions few = options.benchmark.rotation;
  few.rounds = 3;
  few.batch_us = 200;
  return time_in_rotation({{"topology", [&](std::int64_t) { owner.build(stream); }}}, few, stream)[0]
      .median_us;
}

void run_products(CommandOptions options) {
  options.benchmark.loop = contains(options.peers, "loop");
  options.benchmark.streams = contains(options.peers, "streams");
  options.benchmark.grouped = contains(options.peers, "grouped");
  const std::vector<BenchmarkCase> cases = selected_cases(options);
  std::vector<ProductShape> shapes;
  for (const BenchmarkCase& one : cases)
    for (const Product product : products_of(one, options)) shapes.push_back(product_shape(one, product));

  const DeviceStream stream;
  const GpuState gpu;
  ProductRun run;
  run.gpu = gpu.description();
  run.rates = measure_memory_rates(stream);
  run.commit = options.commit;
  run.dropless_version = DROPLESS_VERSION;
  run.options = options.benchmark;
  run.peers_not_run = peers_not_run(options);
  ProductBenchmark benchmark(shapes, options.benchmark, run.rates.higher(), gpu, stream);
  run.cublas_version = benchmark.cublas_version();
  print_header(run);

  std::vector<CaseResult> results;
  std::int64_t wrong = 0;
  for (const BenchmarkCase& one : cases) {
    const OwnedTopology owner({one.tokens, one.top_k, one.experts, options.tile_rule}, router_ids(one));
    const Topology topology = owner.build(stream);
    if (check(topology, stream).useful_rows != one.rows())
      throw Error("topology of " + one.name, "of another number of rows", "the case's rows");
    CaseResult result{one,
                      rows_scheduled(one, options.tile_rule),
                      topology_us(owner, options, stream),
                      owner.metadata_bytes(),
                      owner.workspace_bytes(),
                      {}};
    print_case(result);
    for (const Product product : products_of(one, options)) {
      result.products.push_back(benchmark.measure(one, topology.expert_rows(), product));
      print_product(result.products.back(), product_tolerance(options.benchmark.type));
      wrong += result.products.back().right ? 0 : 1;
    }
    results.push_back(std::move(result));
    // Written as the run goes on, so that a run cut short leaves what it measured.
    if (!options.json_path.empty()) write_json(options.json_path, to_json(run, results));
  }
  print_summary(results);
  if (wrong > 0) throw Error("products with a wrong result", std::to_string(wrong), "0");
}

}  // namespace

void add_products_command(CLI::App& program) {
  const auto options = std::make_shared<CommandOptions>();
  CLI::App* command = program.add_subcommand("products", "Time the expert products beside cuBLAS");
  command->add_option("--cases", options->cases_path, "Cases, as data/cases/moe_shapes.json")->required();
  command->add_option("--only", options->only, "Take the cases whose name contains this");
  std::vector<std::string> product_names;
  for (const Product product : all_products) product_names.emplace_back(product_name(product));
  command->add_option("--products", options->products, "Products to time, separated by commas")
      ->delimiter(',')
      ->check(CLI::IsMember(product_names))
      ->capture_default_str();
  command
      ->add_option("--gradient-rows", options->gradient_rows,
                   "Fewest rows of a case whose gradients are timed")
      ->capture_default_str();
  command->add_option("--peers", options->peers, "Peers to time; dense always is, since scores need it")
      ->delimiter(',')
      ->check(CLI::IsMember({"dense", "loop", "streams", "grouped"}))
      ->capture_default_str();
  const std::map<std::string, KernelPath> paths = {
      {"automatic", KernelPath::automatic}, {"sm90", KernelPath::sm90}, {"portable", KernelPath::portable}};
  command->add_option("--path", options->benchmark.product.path, "Kernels of dropless to use")
      ->transform(CLI::CheckedTransformer(paths));
  const std::map<std::string, WeightOrder> orders = {{"k_by_n", WeightOrder::k_by_n},
                                                     {"n_by_k", WeightOrder::n_by_k}};
  command->add_option("--weight-order", options->benchmark.weight_order, "Order of the weights in memory")
      ->transform(CLI::CheckedTransformer(orders));
  const std::map<std::string, ElementType> types = {{"bf16", ElementType::bf16}, {"fp16", ElementType::fp16}};
  command->add_option("--dtype", options->benchmark.type, "Element type")
      ->transform(CLI::CheckedTransformer(types));
  command->add_option("--tile-rows", options->tile_rule.tile_rows, "Most rows of a tile")
      ->capture_default_str();
  command->add_option("--tile-granule", options->tile_rule.granule, "Step of a tile's height")
      ->capture_default_str();
  command->add_option("--rounds", options->benchmark.rotation.rounds, "Rounds of the rotation")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--batch-us", options->benchmark.rotation.batch_us,
                   "Least duration of a batch of calls, us")
      ->capture_default_str();
  command->add_flag("--graph", options->benchmark.rotation.graph, "Replay the batches from CUDA graphs");
  command->add_option("--commit", options->commit, "Commit to record in the JSON")->capture_default_str();
  command->add_option("--json", options->json_path, "File for the figures");
  command->callback([options] { run_products(*options); });
}
