// The expert layer over rows that the caller has in expert order, with gaps between experts, against the
// CPU's.
#include <algorithm>
#include <cmath>

#include "expert_mlp_device.hpp"
#include "product_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::int64_t rows_bound = 150;
const std::vector<std::int32_t> row_begin{1, 80, 5, 130}, row_count{3, 0, 70, 20};

bool is_row(std::int64_t row) {
  for (std::size_t e = 0; e < row_begin.size(); ++e)
    if (row >= row_begin[e] && row < row_begin[e] + row_count[e]) return true;
  return false;
}

/// The values of the experts' rows; requires that the others were not written.
std::vector<double> of_rows(const std::vector<double>& values) {
  const std::int64_t columns = static_cast<std::int64_t>(values.size()) / rows_bound;
  std::vector<double> result;
  bool others_unwritten = true;
  for (std::int64_t r = 0; r < rows_bound; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double value = values[static_cast<std::size_t>(r * columns + c)];
      if (is_row(r))
        result.push_back(value);
      else
        others_unwritten = others_unwritten && std::isnan(value);
    }
  REQUIRE(others_unwritten);
  return result;
}

/// Names whose values are by row.
bool is_by_row(const std::string& name) { return name == "out" || name == "x" || name == "routing_weights"; }

struct RowsCase {
  RowsCase(const ExpertMlpShape& shape, ElementType type)
      : host(shape), layer(host, type, type), rows(row_begin, row_count, rows_bound) {}

  ExpertMlpRows batch() const {
    const ExpertMlpBatch tokens = layer.batch();
    return {rows.view(), tokens.routing_weights, tokens.x};
  }
  void run(const LayerWay& way, bool saves) const {
    const ExpertMlpOptions options = layer.options(way);
    const DeviceBuffer<unsigned char> saved(saves ? expert_mlp_rows_saved_bytes(layer.mlp(), rows.view())
                                                  : 0);
    const DeviceBuffer<unsigned char> workspace(
        expert_mlp_rows_forward_workspace_bytes(layer.mlp(), rows.view(), options, saves));
    const DeviceMemory kept{saves ? saved.data() : nullptr, saved.size()};
    expert_mlp_rows_forward(layer.mlp(), batch(), layer.out(), options, kept,
                            {workspace.data(), workspace.size()}, nullptr);
    REQUIRE(workspace.guards_intact());
    if (!saves) return;
    const DeviceBuffer<unsigned char> backward_workspace(
        expert_mlp_rows_backward_workspace_bytes(layer.mlp(), rows.view(), options));
    expert_mlp_rows_backward(layer.mlp(), batch(), layer.out_gradient(), layer.gradients(), options, kept,
                             {backward_workspace.data(), backward_workspace.size()}, nullptr);
    REQUIRE(saved.guards_intact());
    REQUIRE(backward_workspace.guards_intact());
  }
  NamedValues results() const {
    NamedValues all = layer.results();
    for (auto& [name, values] : all)
      if (is_by_row(name)) values = of_rows(values);
    return all;
  }
  NamedValues expected() {
    const std::vector<std::int64_t> begin(row_begin.begin(), row_begin.end()),
        count(row_count.begin(), row_count.end());
    const std::int64_t d_model = host.shape.d_model;
    const HostExpertMlpRows<double> batch{
        {begin, count}, host.weighted() ? host.routing_weights.data() : nullptr, {host.x.data(), d_model}};
    std::vector<double> y(host.x.size(), NAN);
    reference_expert_mlp_rows_forward(host.mlp(), batch, {y.data(), d_model}, host.options);
    CaseGradients gradients(host, NAN);
    reference_expert_mlp_rows_backward(host.mlp(), batch, {host.out_gradient.data(), d_model},
                                       gradients.view(host), host.options);
    NamedValues all{{"out", y}};
    for (const auto& [name, values] : gradients.all()) all.emplace_back(name, *values);
    for (auto& [name, values] : all)
      if (is_by_row(name) && !values.empty()) values = of_rows(values);
    return all;
  }

  ExpertMlpCase host;
  DeviceLayer layer;
  DeviceRows rows;
};

ExpertMlpShape rows_shape(RoutingWeightPlace place, bool biases) {
  ExpertMlpShape shape;
  shape.tokens = rows_bound;
  shape.top_k = 1;
  shape.d_model = 72;
  shape.d_ff = {64, 64, 64, 64};
  shape.weight_place = place;
  shape.biases = biases;
  return shape;
}

}  // namespace

TEST_CASE("the layer over rows agrees with the CPU's and leaves other rows alone", "[small]") {
  for (const RoutingWeightPlace place :
       {RoutingWeightPlace::output, RoutingWeightPlace::input, RoutingWeightPlace::none})
    for (const bool biases : {false, true})
      for (const float scale : {1.0F, 1.5F}) {
        RowsCase rows(rows_shape(place, biases), ElementType::bf16);
        rows.host.options.output_scale = scale;
        const NamedValues expected = rows.expected();
        for (const LayerWay& way : {layer_ways[0], layer_ways[2]}) {
          INFO(way.name << ", place " << static_cast<int>(place) << ", biases " << biases << ", scale "
                        << scale);
          rows.layer.poison();
          rows.run(way, true);
          require_close(rows.results(), expected, ElementType::bf16);
          const auto trained = rows.layer.bits();
          rows.layer.poison();
          rows.run(way, false);
          check_same_bits(rows.layer.bits()[out_bits], trained[out_bits]);
        }
      }
}

TEST_CASE("the layer over rows may add into its output", "[small]") {
  for (const RoutingWeightPlace place : {RoutingWeightPlace::output, RoutingWeightPlace::none}) {
    RowsCase rows(rows_shape(place, place == RoutingWeightPlace::output), ElementType::fp16);
    if (place == RoutingWeightPlace::none) rows.host.options.output_scale = 1;
    std::vector<double> twice = rows.expected()[0].second;
    for (double& value : twice) value *= 2;
    for (const LayerWay& way : {layer_ways[0], layer_ways[2]}) {
      rows.layer.poison();
      rows.host.options.accumulate = false;
      rows.run(way, false);
      rows.host.options.accumulate = true;
      rows.run(way, false);
      rows.host.options.accumulate = false;
      require_close({{"out", of_rows(rows.layer.out_values())}}, {{"out", twice}}, ElementType::fp16);
    }
  }
}
