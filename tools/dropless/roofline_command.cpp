// `dropless roofline`: what a bandwidth and a peak allow at an intensity, and where the products of each
// expert stand under that roof.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "commands.hpp"
#include "dropless/cost.hpp"
#include "shape_options.hpp"

using namespace dropless;

namespace {

using Document = nlohmann::ordered_json;

struct RooflineArguments {
  explicit RooflineArguments(CLI::App& command) : widths(command) {}

  ShapeOptions widths;
  double bandwidth = 0, peak = 0;
  std::optional<double> intensity;
  std::vector<std::int64_t> rows_per_expert;
  bool json = false;
};

/// Where one product stands: `bound` is "memory" left of the ridge and "compute" from it on.
Document placement(double intensity, const RooflineArguments& arguments) {
  const double gflops = attainable_gflops(intensity, arguments.bandwidth, arguments.peak);
  return {{"intensity", intensity},
          {"attainable_gflops", gflops},
          {"bound", gflops < arguments.peak ? "memory" : "compute"}};
}

Document placement(const ProductCost& cost, const RooflineArguments& arguments) {
  if (cost.bytes() == 0) return nullptr;
  Document document = placement(cost.intensity(), arguments);
  document["flops"] = cost.flops;
  document["bytes"] = cost.bytes();
  return document;
}

/// The placements of every expert's up and down product, and of all experts together.
Document expert_placements(const RooflineArguments& arguments, const ModelShape& shape) {
  Document experts = Document::array();
  std::int64_t all_rows = 0, active = 0;
  const auto place = [&](std::int64_t rows, std::int64_t active_experts) -> Document {
    const ProductCost up =
        up_product_cost(shape.mlp, rows, active_experts, shape.d_model, shape.d_ff, shape.dtype);
    const ProductCost down = down_product_cost(rows, active_experts, shape.d_model, shape.d_ff, shape.dtype);
    return {{"rows", rows}, {"up", placement(up, arguments)}, {"down", placement(down, arguments)}};
  };
  for (std::size_t e = 0; e < arguments.rows_per_expert.size(); ++e) {
    const std::int64_t rows = arguments.rows_per_expert[e];
    if (rows < 0) throw Error("--rows", std::to_string(rows), "counts of 0 or more");
    Document expert = {{"expert", e}};
    expert.update(place(rows, rows > 0));
    experts.push_back(std::move(expert));
    all_rows = checked_sum(all_rows, rows, "--rows");
    active += rows > 0;
  }
  Document document = {{"model",
                        {{"mlp", mlp_kind_name(shape.mlp)},
                         {"d_model", shape.d_model},
                         {"d_ff", shape.d_ff},
                         {"dtype", element_name(shape.dtype)},
                         {"source", shape.source}}},
                       {"experts", std::move(experts)}};
  document["all_experts"] = place(all_rows, active);
  return document;
}

std::string placement_text(const Document& product) {
  if (product.is_null()) return fmt::format("{:>32}", "no rows");
  return fmt::format("{:>10.4g} {:>12.6g} {:>8}", product["intensity"].get<double>(),
                     product["attainable_gflops"].get<double>(), product["bound"].get<std::string>());
}

void print_experts(const Document& document) {
  const Document& model = document["model"];
  fmt::print(
      "Products of each expert ({}, d_model {}, d_ff {}, {}): FLOPs a byte, attainable GFLOP/s, bound\n",
      model["mlp"].get<std::string>(), model["d_model"].dump(), model["d_ff"].dump(),
      model["dtype"].get<std::string>());
  fmt::print("{:>8} {:>12} {:>10} {:>12} {:>8} {:>10} {:>12} {:>8}\n", "expert", "rows", "up", "GFLOP/s",
             "bound", "down", "GFLOP/s", "bound");
  const auto print_row = [](const std::string& name, const Document& row) {
    fmt::print("{:>8} {:>12} {} {}\n", name, row["rows"].dump(), placement_text(row["up"]),
               placement_text(row["down"]));
  };
  for (const Document& expert : document["experts"]) print_row(expert["expert"].dump(), expert);
  print_row("all", document["all_experts"]);
}

void print_text(const Document& document) {
  if (document.contains("intensity"))
    fmt::print("{} GFLOP/s, bound by {}\n", document["attainable_gflops"].get<double>(),
               document["bound"].get<std::string>());
  fmt::print("Roof: min({} GFLOP/s, FLOPs a byte * {} GB/s); the ridge is at {:.4g} FLOPs a byte\n",
             document["peak"].get<double>(), document["bandwidth"].get<double>(),
             document["ridge"].get<double>());
  if (document.contains("experts")) print_experts(document);
}

}  // namespace

void add_roofline_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "roofline", "Print what bandwidth and peak allow at an intensity, or to each expert's products");
  const auto arguments = std::make_shared<RooflineArguments>(*command);
  command->add_option("--bandwidth", arguments->bandwidth, "Memory bandwidth in GB/s")->required();
  command->add_option("--peak", arguments->peak, "Peak arithmetic in GFLOP/s")->required();
  command->add_option("--intensity", arguments->intensity, "FLOPs per byte moved");
  command->add_option("--rows", arguments->rows_per_expert, "Rows per expert, for example 3,0,130,128")
      ->delimiter(',');
  command->add_flag("--json", arguments->json, "Print JSON");
  command->callback([arguments] {
    attainable_gflops(1, arguments->bandwidth, arguments->peak);  // refuses a roof that is none
    const std::optional<ModelShape> shape = arguments->widths.shape();
    if (!arguments->intensity && arguments->rows_per_expert.empty())
      throw Error("the work", "not given", "--intensity, or --rows with widths");
    if (!arguments->rows_per_expert.empty() && !shape)
      throw Error("the model's shape", "not given", "--model, or --mlp, --d-model and --d-ff");
    Document document = {{"bandwidth", arguments->bandwidth},
                         {"peak", arguments->peak},
                         {"ridge", arguments->peak / arguments->bandwidth}};
    if (arguments->intensity) document.update(placement(*arguments->intensity, *arguments));
    if (!arguments->rows_per_expert.empty()) document.update(expert_placements(*arguments, *shape));
    if (arguments->json)
      fmt::print("{}\n", document.dump());
    else
      print_text(document);
  });
}
