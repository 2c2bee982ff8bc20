// The expert layer over rows that the caller has in expert order, with gaps between experts, against the
// CPU's.
#include "expert_mlp_rows_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::int64_t rows_bound = 150;

struct RowsCase : ExpertMlpRowsCase {
  RowsCase(const ExpertMlpShape& shape, ElementType type)
      : ExpertMlpRowsCase(shape, type, {1, 80, 5, 130}, {3, 0, 70, 20}) {}

  void train(const LayerWay& way) const {
    const ExpertMlpOptions options = layer.options(way);
    const MemoryOfLayer<LayerFromRows> memory(layer, batch(), options);
    memory.run_forward(layer, batch(), layer.out(), options);
    memory.run_backward(layer, batch(), layer.out_gradient(), layer.gradients(), options);
    REQUIRE(memory.guards_intact());
  }
  void infer(const LayerWay& way) const {
    const ExpertMlpOptions options = layer.options(way);
    const DeviceBuffer<unsigned char> workspace(
        expert_mlp_rows_forward_workspace_bytes(layer.mlp(), rows.view(), options, false));
    expert_mlp_rows_forward(layer.mlp(), batch(), layer.out(), options, {},
                            {workspace.data(), workspace.size()}, nullptr);
    REQUIRE(workspace.guards_intact());
  }
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
          rows.train(way);
          require_close(rows.results(), expected, ElementType::bf16);
          const auto trained = rows.layer.bits();
          rows.layer.poison();
          rows.infer(way);
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
      rows.infer(way);
      rows.host.options.accumulate = true;
      rows.infer(way);
      rows.host.options.accumulate = false;
      require_close({{"out", rows.of_rows(rows.layer.out_values())}}, {{"out", twice}}, ElementType::fp16);
    }
  }
}

TEST_CASE("the layer over rows takes tiles from their counter only where it may, and leaves it at zero",
          "[small]") {
  RowsCase rows(rows_shape(RoutingWeightPlace::output, false), ElementType::bf16);
  const DeviceBuffer<std::uint32_t> counter(std::vector<std::uint32_t>{7});
  ExpertMlpRows batch = rows.batch();
  batch.rows.tile_counter = counter.data();
  ExpertMlpOptions options = rows.layer.options(layer_ways[0]);
  const auto train = [&] {
    rows.layer.poison();
    const MemoryOfLayer<LayerFromRows> memory(rows.layer, batch, options);
    memory.run_forward(rows.layer, batch, rows.layer.out(), options);
    memory.run_backward(rows.layer, batch, rows.layer.out_gradient(), rows.layer.gradients(), options);
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
    return rows.layer.bits();
  };
  const auto shared = train();
  REQUIRE(download(counter.data(), 1)[0] == 7);
  DROPLESS_CUDA_CHECK(cudaMemset(counter.data(), 0, sizeof(std::uint32_t)));
  options.exclusive_rows = true;
  const auto alone = train();
  REQUIRE(download(counter.data(), 1)[0] == 0);
  for (std::size_t i = 0; i < shared.size(); ++i) check_same_bits(alone[i], shared[i]);
}
