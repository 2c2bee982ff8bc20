// `dropless roofline`: what a bandwidth and a peak allow at an intensity, and where the products of each
// expert stand under that roof.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "commands.hpp"
#include "dropless/cost.hpp"
#include "dropless/time_model.hpp"
#include "progress_line.hpp"
#include "shape_options.hpp"
#include "trace_arguments.hpp"

using namespace dropless;

namespace {

using Document = nlohmann::ordered_json;

struct RooflineArguments {
  explicit RooflineArguments(CLI::App& command) : trace(command), widths(command) {}

  TraceArguments trace;
  ShapeOptions widths;
  std::string path, hardware;
  std::optional<double> stated_bandwidth, stated_peak, intensity;
  std::vector<std::int64_t> rows_per_expert;
  bool json = false;
};

/// The roof that everything is placed under.
struct Roof {
  double bandwidth = 0, peak = 0;  ///< GB/s, GFLOP/s
};

/// The work of one layer's experts: an expert's weights are read once in every batch that has rows for it.
struct LayerWork {
  std::int64_t layer = 0;
  std::vector<std::int64_t> rows, active_batches;  ///< [experts]
};

/// Sums the batches of a trace; each worker has its own sums.
class WorkSink : public BatchSink {
 public:
  WorkSink(const TraceInfo& info, int workers) : layers_(info.layers) {
    const auto experts = static_cast<std::size_t>(info.experts);
    std::vector<LayerWork> none;
    for (const std::int64_t layer : layers_)
      none.push_back({layer, std::vector<std::int64_t>(experts), std::vector<std::int64_t>(experts)});
    sums_.assign(static_cast<std::size_t>(workers), none);
  }

  void batch(int worker, const Batch& batch) override {
    const auto layer = std::find(layers_.begin(), layers_.end(), batch.layer) - layers_.begin();
    LayerWork& work = sums_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(layer)];
    for (std::size_t e = 0; e < work.rows.size(); ++e) {
      work.rows[e] += batch.rows_per_expert[e];
      work.active_batches[e] += batch.rows_per_expert[e] > 0;
    }
  }

  std::vector<LayerWork> total() const {
    std::vector<LayerWork> total = sums_.front();
    for (std::size_t worker = 1; worker < sums_.size(); ++worker)
      for (std::size_t layer = 0; layer < total.size(); ++layer)
        for (std::size_t e = 0; e < total[layer].rows.size(); ++e) {
          total[layer].rows[e] += sums_[worker][layer].rows[e];
          total[layer].active_batches[e] += sums_[worker][layer].active_batches[e];
        }
    return total;
  }

 private:
  std::vector<std::int64_t> layers_;
  std::vector<std::vector<LayerWork>> sums_;
};

std::vector<LayerWork> work_of_trace(const RooflineArguments& arguments, const ModelShape& shape) {
  const auto trace = arguments.trace.open(arguments.path, shape);
  const int workers = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  WorkSink sink(trace->info(), workers);
  ProgressLine progress;
  trace->read(sink, workers, ProgressLine::update, &progress);
  return sink.total();
}

LayerWork work_of_one_batch(const std::vector<std::int64_t>& rows_per_expert) {
  LayerWork work{0, rows_per_expert, {}};
  for (const std::int64_t rows : rows_per_expert) {
    if (rows < 0) throw Error("--rows", std::to_string(rows), "counts of 0 or more");
    work.active_batches.push_back(rows > 0);
  }
  return work;
}

/// Where one product stands: `bound` is "memory" left of the ridge and "compute" from it on.
Document placement(double intensity, const Roof& roof) {
  const double gflops = attainable_gflops(intensity, roof.bandwidth, roof.peak);
  return {{"intensity", intensity},
          {"attainable_gflops", gflops},
          {"bound", gflops < roof.peak ? "memory" : "compute"}};
}

Document placement(const ProductCost& cost, const Roof& roof) {
  if (cost.bytes() == 0) return nullptr;
  Document document = placement(cost.intensity(), roof);
  document["flops"] = cost.flops;
  document["bytes"] = cost.bytes();
  return document;
}

/// Where the up and the down product of these rows stand.
Document product_placements(std::int64_t rows, std::int64_t active_experts, const Roof& roof,
                            const ModelShape& shape) {
  const ProductCost up =
      up_product_cost(shape.mlp, rows, active_experts, shape.d_model, shape.d_ff, shape.dtype);
  const ProductCost down = down_product_cost(rows, active_experts, shape.d_model, shape.d_ff, shape.dtype);
  return {{"rows", rows}, {"up", placement(up, roof)}, {"down", placement(down, roof)}};
}

/// A layer's experts, and all of them together.
Document layer_placements(const LayerWork& work, const Roof& roof, const ModelShape& shape) {
  Document experts = Document::array();
  std::int64_t all_rows = 0, all_active = 0;
  for (std::size_t e = 0; e < work.rows.size(); ++e) {
    Document expert = {{"expert", e}};
    expert.update(product_placements(work.rows[e], work.active_batches[e], roof, shape));
    experts.push_back(std::move(expert));
    all_rows = checked_sum(all_rows, work.rows[e], "the sum of the rows");
    all_active += work.active_batches[e];
  }
  return {{"layer", work.layer},
          {"experts", std::move(experts)},
          {"all_experts", product_placements(all_rows, all_active, roof, shape)}};
}

Document model_document(const ModelShape& shape) {
  return {{"mlp", mlp_kind_name(shape.mlp)},
          {"d_model", shape.d_model},
          {"d_ff", shape.d_ff},
          {"dtype", element_name(shape.dtype)},
          {"source", shape.source}};
}

std::string placement_text(const Document& product) {
  if (product.is_null()) return fmt::format("{:>32}", "no rows");
  return fmt::format("{:>10.4g} {:>12.6g} {:>8}", product["intensity"].get<double>(),
                     product["attainable_gflops"].get<double>(), product["bound"].get<std::string>());
}

void print_layers(const Document& document) {
  const Document& model = document["model"];
  fmt::print("Products of each expert ({}, d_model {}, d_ff {}, {}), weights read once a batch:\n",
             model["mlp"].get<std::string>(), model["d_model"].dump(), model["d_ff"].dump(),
             model["dtype"].get<std::string>());
  fmt::print("{:>6} {:>6} {:>12} {:>10} {:>12} {:>8} {:>10} {:>12} {:>8}\n", "", "", "", "up", "", "", "down",
             "", "");
  fmt::print("{:>6} {:>6} {:>12} {:>10} {:>12} {:>8} {:>10} {:>12} {:>8}\n", "layer", "expert", "rows",
             "FLOPs/byte", "GFLOP/s", "bound", "FLOPs/byte", "GFLOP/s", "bound");
  const auto print_row = [](const Document& layer, const std::string& expert, const Document& row) {
    fmt::print("{:>6} {:>6} {:>12} {} {}\n", layer["layer"].dump(), expert, row["rows"].dump(),
               placement_text(row["up"]), placement_text(row["down"]));
  };
  for (const Document& layer : document["layers"]) {
    for (const Document& expert : layer["experts"]) print_row(layer, expert["expert"].dump(), expert);
    print_row(layer, "all", layer["all_experts"]);
  }
}

void print_text(const Document& document) {
  if (document.contains("intensity"))
    fmt::print("{} GFLOP/s, bound by {}\n", document["attainable_gflops"].get<double>(),
               document["bound"].get<std::string>());
  fmt::print("Roof: min({} GFLOP/s, FLOPs a byte * {} GB/s); the ridge is at {:.4g} FLOPs a byte\n",
             document["peak"].get<double>(), document["bandwidth"].get<double>(),
             document["ridge"].get<double>());
  if (document.contains("layers")) print_layers(document);
}

/// The GPU's limits for the elements' type, with what was stated in their place.
Roof roof_of(const RooflineArguments& arguments) {
  Roof roof;
  if (!arguments.hardware.empty()) {
    const HardwareProfile hardware = find_hardware(arguments.hardware);
    roof = {hardware.bandwidth, hardware.peak(arguments.widths.dtype())};
  } else if (!arguments.stated_bandwidth || !arguments.stated_peak) {
    throw Error("the roof", "incomplete", "--bandwidth and --peak together, or --hardware");
  }
  roof.bandwidth = arguments.stated_bandwidth.value_or(roof.bandwidth);
  roof.peak = arguments.stated_peak.value_or(roof.peak);
  attainable_gflops(1, roof.bandwidth, roof.peak);  // refuses a roof that is none
  return roof;
}

void run_roofline(const RooflineArguments& arguments) {
  const bool from_trace = !arguments.path.empty(), from_rows = !arguments.rows_per_expert.empty();
  if (!arguments.intensity && !from_trace && !from_rows)
    throw Error("the work", "not given", "--intensity, or with widths --rows or a trace");
  if (from_trace && from_rows) throw Error("the work", "given twice", "--rows or a trace");
  const Roof roof = roof_of(arguments);
  Document document = {
      {"bandwidth", roof.bandwidth}, {"peak", roof.peak}, {"ridge", roof.peak / roof.bandwidth}};
  if (arguments.intensity) document.update(placement(*arguments.intensity, roof));
  if (from_trace || from_rows) {
    const std::optional<ModelShape> shape = arguments.widths.shape();
    if (!shape) throw Error("the model's shape", "not given", "--model, or --mlp, --d-model and --d-ff");
    const std::vector<LayerWork> layers = from_trace
                                              ? work_of_trace(arguments, *shape)
                                              : std::vector{work_of_one_batch(arguments.rows_per_expert)};
    document["model"] = model_document(*shape);
    document["layers"] = Document::array();
    for (const LayerWork& work : layers) document["layers"].push_back(layer_placements(work, roof, *shape));
  }
  if (arguments.json)
    fmt::print("{}\n", document.dump());
  else
    print_text(document);
}

}  // namespace

void add_roofline_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "roofline", "Print what bandwidth and peak allow at an intensity, or to each expert's products");
  const auto arguments = std::make_shared<RooflineArguments>(*command);
  command->add_option("trace", arguments->path, "Trace file, or a folder of per-rank files");
  command->add_option("--hardware", arguments->hardware,
                      "GPU under whose limits to stand (data/hardware.json): A100, H100 or H200");
  command->add_option("--bandwidth", arguments->stated_bandwidth,
                      "Memory bandwidth in GB/s, instead of the GPU's");
  command->add_option("--peak", arguments->stated_peak, "Peak arithmetic in GFLOP/s, instead of the GPU's");
  command->add_option("--intensity", arguments->intensity, "FLOPs per byte moved");
  command
      ->add_option("--rows", arguments->rows_per_expert,
                   "Rows per expert of one batch, for example 3,0,130,128")
      ->delimiter(',');
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] { run_roofline(*arguments); });
}
