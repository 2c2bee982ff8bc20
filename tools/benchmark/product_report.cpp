// The table, the means and the JSON of the products' figures.
#include "product_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "statistics.hpp"

namespace dropless::benchmark {
namespace {

using Json = nlohmann::ordered_json;

constexpr double marked_spread = 0.05;

const char* path_name(KernelPath path) {
  return path == KernelPath::sm90 ? "sm90" : path == KernelPath::portable ? "portable" : "automatic";
}

const char* order_name(WeightOrder order) { return order == WeightOrder::k_by_n ? "k_by_n" : "n_by_k"; }

std::string cublas_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

/// What a figure includes.
std::string boundary(const ProductRun& run) {
  return fmt::format(
      "device time of one call, the mean of back-to-back {} on one stream (dropless lets a call set itself "
      "up while "
      "the one before it ends); the tile list was built before by the topology (its time stands beside each "
      "case); "
      "cuBLAS is given the rows of each expert on the host beforehand",
      run.options.rotation.graph ? "calls replayed from a CUDA graph" : "eager calls");
}

/// Kinds of product that have a mean of their own.
enum class Kind { forward, input_gradient, weight_gradient };
constexpr std::array<Kind, 3> all_kinds = {Kind::forward, Kind::input_gradient, Kind::weight_gradient};

Kind kind_of(Product product) {
  return is_weight_gradient(product)  ? Kind::weight_gradient
         : is_input_gradient(product) ? Kind::input_gradient
                                      : Kind::forward;
}

const char* kind_name(Kind kind) {
  return kind == Kind::forward          ? "up and down"
         : kind == Kind::input_gradient ? "input gradients"
                                        : "weight gradients";
}

/// The scores of one contestant over one kind of product.
struct ScoreList {
  std::vector<double> scores;
  double worst = 0;
  std::string worst_place;

  void add(double score, const std::string& place) {
    if (scores.empty() || score < worst) {
      worst = score;
      worst_place = place;
    }
    scores.push_back(score);
  }
};

struct Summary {
  std::map<std::string, ScoreList> contestants;
  std::vector<std::string> behind;  ///< places where a peer other than the dense product is faster
  std::vector<std::string> wrong;
};

Summary summarise(const std::vector<CaseResult>& cases, Kind kind) {
  Summary summary;
  for (const CaseResult& one : cases)
    for (const ProductResult& product : one.products) {
      if (kind_of(product.product) != kind) continue;
      const std::string place = one.benchmark_case.name + " " + product_name(product.product);
      if (!product.right) summary.wrong.push_back(place);
      double ours = 0;
      std::string faster;
      for (const ContestantResult& contestant : product.contestants) {
        summary.contestants[contestant.name].add(contestant.score, place);
        if (contestant.name == "dropless") ours = contestant.score;
        if (contestant.name != "cublas_dense" && ours > 0 && contestant.score > ours)
          faster =
              fmt::format("{} ({} {:.3f}, dropless {:.3f})", place, contestant.name, contestant.score, ours);
      }
      if (!faster.empty()) summary.behind.push_back(faster);
    }
  return summary;
}

Json sample_json(const std::optional<GpuSample>& sample) {
  if (!sample) return nullptr;
  return {{"sm_mhz", sample->sm_mhz},
          {"memory_mhz", sample->memory_mhz},
          {"watts", sample->watts},
          {"watts_limit", sample->watts_limit},
          {"celsius", sample->celsius}};
}

Json product_json(const ProductRun& run, const CaseResult& one, const ProductResult& product) {
  const std::string type = element_name(run.options.type);
  Json json = {{"name", one.benchmark_case.name},
               {"product", product_name(product.product)},
               {"dtype", type},
               {"precision_path", type + " x " + type + " -> float -> " + type},
               {"mlp", mlp_kind_name(one.benchmark_case.mlp)},
               {"local_experts", one.benchmark_case.experts},
               {"rows_per_expert", one.benchmark_case.rows_per_expert},
               {"k", product.shape.k},
               {"n", product.shape.n},
               {"kernel_path", path_name(product.path)},
               {"useful_rows", product.shape.rows},
               {"scheduled_rows", one.scheduled_rows},
               {"flops", product.shape.cost(run.options.type).flops},
               {"least_bytes", product.least_bytes},
               {"error", product.error},
               {"reference_us", product.reference_us},
               {"us", Json::object()},
               {"score", Json::object()},
               {"spread", Json::object()}};
  for (const ContestantResult& contestant : product.contestants) {
    json["us"][contestant.name] = contestant.timing.median_us;
    json["score"][contestant.name] = contestant.score;
    json["spread"][contestant.name] = contestant.timing.spread;
  }
  json["failed_peers"] = product.failed_peers;
  json["clocks"] = sample_json(product.gpu);
  json["topology_us"] = one.topology_us;
  json["metadata_bytes"] = one.metadata_bytes;
  json["topology_workspace_bytes"] = one.workspace_bytes;
  json["product_workspace_bytes"] = 0;
  return json;
}

}  // namespace

void print_header(const ProductRun& run) {
  fmt::print(
      "{}, {} multiprocessors, L2 {:.0f} MB; driver {} (CUDA {}), runtime {}, cuBLAS {}, dropless {} {}\n",
      run.gpu.name, run.gpu.multiprocessors, run.gpu.l2_bytes * 1e-6,
      run.gpu.driver.empty() ? "unknown" : run.gpu.driver, cuda_version_text(run.gpu.cuda_driver_version),
      cuda_version_text(run.gpu.cuda_runtime_version), cublas_version_text(run.cublas_version),
      run.dropless_version, run.commit);
  fmt::print("B = {:.3f} TB/s (copy {:.3f}, read-only {:.3f})\n", run.rates.higher(), run.rates.copy_tbps,
             run.rates.read_tbps);
  fmt::print("L2: cold; consecutive calls take other copies of the operands, at least {} MB in a turn\n",
             least_bytes_per_turn / 1'000'000);
  fmt::print("boundary: {}\n", boundary(run));
  fmt::print(
      "{} operands, weights {} in the forward products, random values; medians of {} rounds in rotation\n",
      element_name(run.options.type), order_name(run.options.weight_order), run.options.rotation.rounds);
  fmt::print(
      "score = reference / time; reference (d) = cublas_dense, (m) = least bytes / B; ! = rounds lie over "
      "{:.0f} % "
      "apart\n",
      100 * marked_spread);
  fmt::print("each contestant: us, useful TFLOP/s, GB/s of the least bytes, score\n");
}

void print_case(const CaseResult& result) {
  const BenchmarkCase& c = result.benchmark_case;
  fmt::print(
      "{} {} {}x{}: {} experts, {} rows, {} scheduled; topology {:.1f} us, metadata {} B, workspace {} B\n",
      c.name, mlp_kind_name(c.mlp), c.d_model, c.d_ff, c.experts, c.rows(), result.scheduled_rows,
      result.topology_us, result.metadata_bytes, result.workspace_bytes);
}

void print_product(const ProductResult& result, double tolerance) {
  fmt::print("  {:<10} {:<4.4} {:7.1f}{}", product_name(result.product), path_name(result.path),
             result.reference_us, result.memory_bound ? 'm' : 'd');
  if (result.gpu) fmt::print(" {:4} MHz {:3.0f} W", result.gpu->sm_mhz, result.gpu->watts);
  if (!result.right)
    fmt::print(" | dropless is WRONG: error {:.2e}, at most {:.0e}", result.error, tolerance);
  const double flops = static_cast<double>(result.shape.rows) * static_cast<double>(result.shape.k) *
                       static_cast<double>(result.shape.n) * 2;
  for (const ContestantResult& contestant : result.contestants) {
    const double us = contestant.timing.median_us;
    fmt::print(" | {} {:.1f} {:.0f} {:.0f} {:.3f}{}", contestant.name, us, flops / us * 1e-6,
               result.least_bytes / us * 1e-3, contestant.score,
               contestant.timing.spread > marked_spread ? "!" : "");
  }
  if (result.right) fmt::print(" | error {:.1e}", result.error);
  for (const auto& [peer, reason] : result.failed_peers) fmt::print(" | {} failed: {}", peer, reason);
  fmt::print("\n");
}

void print_summary(const std::vector<CaseResult>& cases) {
  for (const Kind kind : all_kinds) {
    const Summary summary = summarise(cases, kind);
    for (const auto& [name, list] : summary.contestants)
      fmt::print("{}: {} geometric mean {:.3f}, worst {:.3f} ({}), {} products\n", kind_name(kind), name,
                 geometric_mean(list.scores), list.worst, list.worst_place, list.scores.size());
    for (const std::string& place : summary.behind)
      fmt::print("{}: a peer is faster on {}\n", kind_name(kind), place);
    for (const std::string& place : summary.wrong) fmt::print("{}: WRONG on {}\n", kind_name(kind), place);
  }
}

Json to_json(const ProductRun& run, const std::vector<CaseResult>& cases) {
  Json json = {
      {"gpu", run.gpu.name},
      {"B_tbps", run.rates.higher()},
      {"copy_tbps", run.rates.copy_tbps},
      {"read_only_tbps", run.rates.read_tbps},
      {"commit", run.commit},
      {"versions",
       {{"dropless", run.dropless_version},
        {"driver", run.gpu.driver},
        {"cuda_driver", cuda_version_text(run.gpu.cuda_driver_version)},
        {"cuda_runtime", cuda_version_text(run.gpu.cuda_runtime_version)},
        {"cublas", cublas_version_text(run.cublas_version)}}},
      {"boundary", boundary(run)},
      {"l2", fmt::format("cold: operands rotate through at least {} MB", least_bytes_per_turn / 1'000'000)},
      {"weight_order", order_name(run.options.weight_order)},
      {"rounds", run.options.rotation.rounds},
      {"peers_not_run", run.peers_not_run},
      {"summary", Json::object()},
      {"cases", Json::array()}};
  for (const Kind kind : all_kinds)
    for (const auto& [name, list] : summarise(cases, kind).contestants)
      json["summary"][kind_name(kind)][name] = {{"geometric_mean", geometric_mean(list.scores)},
                                                {"worst", list.worst},
                                                {"worst_place", list.worst_place},
                                                {"products", list.scores.size()}};
  for (const CaseResult& one : cases)
    for (const ProductResult& product : one.products)
      json["cases"].push_back(product_json(run, one, product));
  return json;
}

}  // namespace dropless::benchmark
