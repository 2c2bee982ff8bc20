// `dropless_bench layer`: whole expert layers, router ids to output and back, beside the dense products that
// they are scored against.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "commands.hpp"
#include "cublas_peers.hpp"
#include "device_fill.hpp"
#include "device_stream.hpp"
#include "gpu_state.hpp"
#include "json_file.hpp"
#include "layer_operands.hpp"
#include "layer_steps.hpp"
#include "product_score.hpp"
#include "statistics.hpp"

namespace {

using namespace dropless;
using namespace dropless::benchmark;
using Json = nlohmann::ordered_json;

constexpr const char* boundary =
    "device time of one call, mean of back-to-back calls, router ids to output: preparation, gather, "
    "products, "
    "activation and combine included; fwd saves nothing, fwd_bwd saves and gives all gradients";
constexpr std::int64_t backward_tokens = 512;  // fewer tokens are inference
constexpr double tolerance = 8e-3;

struct CommandOptions {
  std::string cases_path, only, json_path, commit = DROPLESS_COMMIT;
  WeightOrder weight_order = WeightOrder::k_by_n;
  ElementType type = ElementType::bf16;
  ExpertMlpOptions layer;
  RotationOptions rotation;
  bool steps = false;
};

bool has_backward(const BenchmarkCase& of) { return of.tokens >= backward_tokens; }

/// One dense product of each kind over memory of its own.
class DenseProducts {
 public:
  DenseProducts(const BenchmarkCase& of, const CommandOptions& options, Stream stream) : cublas_(stream) {
    for (const Product product : all_products) {
      if (!has_backward(of) && product != Product::up && product != Product::down) continue;
      const RingLayout layout(product_shape(of, product), options.type);
      const std::int64_t bytes[] = {layout.row_slots * layout.a_bytes, layout.row_slots * layout.b_bytes,
                                    layout.weight_copies * layout.weight_bytes};
      std::byte* operands[3];
      for (int i = 0; i < 3; ++i) {
        memory_.emplace_back(static_cast<std::size_t>(bytes[i]));
        operands[i] = static_cast<std::byte*>(memory_.back().data());
        fill_random(operands[i], bytes[i] / element_bytes(options.type), options.type,
                    static_cast<std::uint32_t>(i), 0.1f, stream);
      }
      rings_.push_back(std::make_unique<OperandRing>(
          OperandRing{layout, options.weight_order, operands[0], operands[1], operands[2]}));
      products_.push_back(product);
    }
  }
  const std::vector<Product>& products() const { return products_; }
  Call call(std::size_t index) const { return cublas_.dense(*rings_[index]); }
  double least_bytes(std::size_t index, ElementType type) const {
    return static_cast<double>(rings_[index]->layout.shape.cost(type).bytes());
  }

 private:
  CublasPeers cublas_;
  std::vector<benchmark::DeviceMemory> memory_;
  std::vector<std::unique_ptr<OperandRing>> rings_;
  std::vector<Product> products_;
};

/// Throws Error where the fused and the composed layer differ by more than rounding.
void check_against_composed(const LayerOperands& operands, const CommandOptions& options,
                            const std::string& name, Stream stream) {
  ExpertMlpOptions composed = options.layer;
  composed.composed = true;
  operands.forward(composed, stream);
  const benchmark::DeviceMemory expected(operands.out().bytes());
  DROPLESS_CUDA_CHECK(cudaMemcpyAsync(expected.data(), operands.out().data(), expected.bytes(),
                                      cudaMemcpyDeviceToDevice, stream));
  DROPLESS_CUDA_CHECK(cudaMemsetAsync(operands.out().data(), 0xff, expected.bytes(), stream));
  operands.forward(options.layer, stream);
  const double error = relative_error(
      operands.out().data(), expected.data(),
      static_cast<std::int64_t>(expected.bytes()) / element_bytes(options.type), options.type, stream);
  if (!(error <= tolerance))
    throw Error("distance of " + name + " from its composition", fmt::format("{:.2e}", error),
                fmt::format("at most {:.0e}", tolerance));
}

Json measure(const BenchmarkCase& of, const CommandOptions& options, double memory_tbps, Stream stream) {
  const bool backward = has_backward(of);
  const LayerOperands operands(of, options.type, options.weight_order, backward, stream);
  check_against_composed(operands, options, of.name, stream);
  ExpertMlpOptions composed = options.layer;
  composed.composed = true;
  const Call fwd = [&](std::int64_t) { operands.forward(options.layer, stream); };
  const Call fwd_bwd = [&](std::int64_t) { operands.forward_backward(options.layer, stream); };
  std::vector<Contestant> eager{{"fwd", fwd},
                                {"unfused_fwd", [&](std::int64_t) { operands.forward(composed, stream); }}};
  std::vector<Contestant> graphs{{"fwd_graph", fwd}};
  if (backward) {
    eager.push_back({"fwd_bwd", fwd_bwd});
    graphs.push_back({"fwd_bwd_graph", fwd_bwd});
  }
  const std::size_t layers = eager.size();
  const DenseProducts dense(of, options, stream);
  for (std::size_t i = 0; i < dense.products().size(); ++i)
    eager.push_back({product_name(dense.products()[i]), dense.call(i)});
  RotationOptions graph_rotation = options.rotation;
  graph_rotation.graph = true;
  const std::vector<Timing> eager_times = time_in_rotation(eager, options.rotation, stream);
  const std::vector<Timing> graph_times = time_in_rotation(graphs, graph_rotation, stream);

  Json json{{"name", of.name}};
  double forward = 0, all = 0;
  for (std::size_t i = 0; i < dense.products().size(); ++i) {
    const double us =
        reference_us(eager_times[layers + i].median_us, dense.least_bytes(i, options.type), memory_tbps);
    const Product product = dense.products()[i];
    forward += product == Product::up || product == Product::down ? us : 0;
    all += us;
  }
  json["reference_us"]["fwd"] = forward;
  if (backward) json["reference_us"]["fwd_bwd"] = all;
  for (std::size_t i = 0; i < layers; ++i) {
    json["us"][eager[i].name] = eager_times[i].median_us;
    json["spread"][eager[i].name] = eager_times[i].spread;
  }
  for (std::size_t i = 0; i < graphs.size(); ++i) json["us"][graphs[i].name] = graph_times[i].median_us;
  json["score"]["fwd"] = forward / json["us"]["fwd"].get<double>();
  if (backward) json["score"]["fwd_bwd"] = all / json["us"]["fwd_bwd"].get<double>();
  json["workspace_bytes"] = operands.inference_bytes();
  if (backward) json["training_bytes"] = operands.training_bytes();

  if (options.steps) {
    const LayerSteps steps(of, operands, backward, stream);
    const std::vector<Contestant> calls = steps.calls();
    const std::vector<Timing> times = time_in_rotation(calls, options.rotation, stream);
    for (std::size_t i = 0; i < calls.size(); ++i) json["steps_us"][calls[i].name] = times[i].median_us;
  }
  return json;
}

void print(const Json& result) {
  fmt::print("{:<32}", result["name"].get<std::string>());
  for (const auto& [name, us] : result["us"].items()) fmt::print(" {} {:.1f}", name, us.get<double>());
  for (const auto& [name, us] : result["reference_us"].items())
    fmt::print(" | {} reference {:.1f} score {:.3f}", name, us.get<double>(),
               result["score"][name].get<double>());
  fmt::print(" | workspace {} B\n", result["workspace_bytes"].get<std::size_t>());
  if (!result.contains("steps_us")) return;
  for (const auto& [name, us] : result["steps_us"].items())
    fmt::print("    {:<32} {:>9.1f} us\n", name, us.get<double>());
}

void print_summary(const Json& cases) {
  for (const std::string kind : {"fwd", "fwd_bwd"}) {
    std::vector<double> scores;
    for (const Json& one : cases)
      if (one["score"].contains(kind)) scores.push_back(one["score"][kind].get<double>());
    if (!scores.empty())
      fmt::print("{}: geometric mean of the score {:.3f}, worst {:.3f}, {} cases\n", kind,
                 geometric_mean(scores), *std::min_element(scores.begin(), scores.end()), scores.size());
  }
}

void run_layer(const CommandOptions& options) {
  const DeviceStream stream;
  const GpuState gpu;
  const MemoryRates rates = measure_memory_rates(stream);
  Json json{{"gpu", gpu.description().name},
            {"B_tbps", rates.higher()},
            {"copy_tbps", rates.copy_tbps},
            {"read_only_tbps", rates.read_tbps},
            {"commit", options.commit},
            {"versions",
             {{"dropless", DROPLESS_VERSION},
              {"cuda_runtime", cuda_version_text(gpu.description().cuda_runtime_version)}}},
            {"boundary", boundary},
            {"l2", "cold: a call moves several times the L2 cache"},
            {"weight_order", options.weight_order == WeightOrder::k_by_n ? "k_by_n" : "n_by_k"},
            {"rounds", options.rotation.rounds},
            {"peers_not_run", {"torch", "scattermoe", "megablocks"}},
            {"cases", Json::array()}};
  fmt::print("{}, B = {:.3f} TB/s, dropless {} {}\nboundary: {}\n", gpu.description().name, rates.higher(),
             DROPLESS_VERSION, options.commit, boundary);
  for (const BenchmarkCase& one : read_benchmark_cases(options.cases_path)) {
    if (one.rows() == 0 || one.name.find(options.only) == std::string::npos) continue;
    json["cases"].push_back(measure(one, options, rates.higher(), stream));
    print(json["cases"].back());
    // Written as the run goes on, so that a run cut short leaves what it measured.
    if (!options.json_path.empty()) write_json(options.json_path, json);
  }
  if (json["cases"].empty()) throw Error("--only", options.only, "a part of the name of a case with rows");
  print_summary(json["cases"]);
}

}  // namespace

void add_layer_command(CLI::App& program) {
  const auto options = std::make_shared<CommandOptions>();
  CLI::App* command = program.add_subcommand("layer", "Time whole expert layers, forward and backward");
  command->add_option("--cases", options->cases_path, "Cases, as data/cases/moe_shapes.json")->required();
  command->add_option("--only", options->only, "Take the cases whose name contains this");
  const std::map<std::string, KernelPath> paths = {
      {"automatic", KernelPath::automatic}, {"sm90", KernelPath::sm90}, {"portable", KernelPath::portable}};
  command->add_option("--path", options->layer.path, "Kernels of dropless to use")
      ->transform(CLI::CheckedTransformer(paths));
  const std::map<std::string, WeightOrder> orders = {{"k_by_n", WeightOrder::k_by_n},
                                                     {"n_by_k", WeightOrder::n_by_k}};
  command->add_option("--weight-order", options->weight_order, "Order of the weights in memory")
      ->transform(CLI::CheckedTransformer(orders));
  const std::map<std::string, ElementType> types = {{"bf16", ElementType::bf16}, {"fp16", ElementType::fp16}};
  command->add_option("--dtype", options->type, "Element type")->transform(CLI::CheckedTransformer(types));
  command->add_option("--rounds", options->rotation.rounds, "Rounds of the rotation")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--batch-us", options->rotation.batch_us, "Least duration of a batch of calls, us")
      ->capture_default_str();
  command->add_flag("--steps", options->steps, "Also time every step of the layer alone");
  command->add_option("--commit", options->commit, "Commit to record in the JSON")->capture_default_str();
  command->add_option("--json", options->json_path, "File for the figures");
  command->callback([options] { run_layer(*options); });
}
