// The expert layer on the GPU against the CPU's in double: outputs and every gradient, for every kind and
// activation, place of the weight, storage of the weights and way of computing.
#include <cmath>

#include "expert_mlp_device.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr Storage k_by_n{WeightOrder::k_by_n, false, false, 0}, n_by_k{WeightOrder::n_by_k, false, false, 0},
    two_k_by_n{WeightOrder::k_by_n, true, false, 0}, two_n_by_k{WeightOrder::n_by_k, true, false, 0},
    separate{WeightOrder::n_by_k, false, true, 0}, pitched{WeightOrder::k_by_n, false, false, 3};
constexpr auto bf16 = ElementType::bf16, fp16 = ElementType::fp16, fp32 = ElementType::fp32;

Activation function(ActivationFunction of) {
  Activation activation;
  activation.function = of;
  return activation;
}

Activation clamped_swiglu() {
  Activation activation;
  activation.alpha = 1.702F;
  activation.limit = 1.5625F;
  activation.up_offset = 1;
  return activation;
}

bool derivative_jumps(const Activation& activation) {
  return activation.function == ActivationFunction::relu || std::isfinite(activation.limit);
}

struct Variant {
  const char* name;
  ElementType type, gradient_type;
  std::int64_t pad;
  ExpertMlpShape shape;
};

std::vector<std::int64_t> equal(std::size_t experts, std::int64_t d_ff) {
  return std::vector<std::int64_t>(experts, d_ff);
}

ExpertMlpShape shape(MlpKind kind, const Activation& activation, RoutingWeightPlace place, bool biases,
                     std::vector<std::int64_t> d_ff, const Storage& up, const Storage& down,
                     std::int64_t tokens = 37, std::int64_t top_k = 2, std::int64_t d_model = 64) {
  ExpertMlpShape shape;
  shape.kind = kind;
  shape.activation = activation;
  shape.weight_place = place;
  shape.biases = biases;
  shape.d_ff = std::move(d_ff);
  shape.up_storage = up;
  shape.down_storage = down;
  shape.tokens = tokens;
  shape.top_k = top_k;
  shape.d_model = d_model;
  return shape;
}

std::vector<Variant> variants() {
  using F = ActivationFunction;
  using Place = RoutingWeightPlace;
  const auto glu = MlpKind::glu, linear2 = MlpKind::linear2;
  return {{"silu glu", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, false, equal(4, 96), k_by_n, k_by_n)},
          {"clamped swiglu with biases", bf16, fp32, 0,
           shape(glu, clamped_swiglu(), Place::output, true, equal(4, 64), n_by_k, n_by_k)},
          {"gelu glu, weight on the input, two tensors", fp16, fp16, 0,
           shape(glu, function(F::gelu_erf), Place::input, true, equal(3, 64), two_n_by_k, k_by_n)},
          {"gelu tanh glu without weights, two tensors", bf16, bf16, 0,
           shape(glu, function(F::gelu_tanh), Place::none, false, equal(3, 128), two_k_by_n, n_by_k)},
          {"relu glu of different widths", fp16, fp32, 0,
           shape(glu, function(F::relu), Place::output, true, {64, 0, 24, 100}, k_by_n, n_by_k)},
          {"gelu", bf16, bf16, 0,
           shape(linear2, function(F::gelu_erf), Place::output, true, equal(4, 72), k_by_n, n_by_k)},
          {"gelu tanh of different widths, weight on the input", fp16, fp16, 0,
           shape(linear2, function(F::gelu_tanh), Place::input, true, {7, 64, 40}, n_by_k, k_by_n)},
          {"relu, separate tensors", bf16, fp32, 0,
           shape(linear2, function(F::relu), Place::none, true, equal(5, 64), separate, separate)},
          {"squared relu of width 100", fp16, fp16, 0,
           shape(linear2, function(F::relu_squared), Place::output, false, equal(3, 100), k_by_n, k_by_n)},
          {"silu with odd pitches, weight on the input", bf16, bf16, 3,
           shape(linear2, function(F::silu), Place::input, false, equal(3, 33), pitched, pitched)},
          {"clamped swiglu of different widths, two tensors, weight on the input", bf16, fp32, 8,
           shape(glu, clamped_swiglu(), Place::input, true, {40, 24, 3}, two_n_by_k, k_by_n)},
          {"different widths in multiples of 8, two tensors", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, false, {64, 8, 128, 32}, two_k_by_n, k_by_n)},
          {"one expert", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, true, equal(1, 64), k_by_n, k_by_n, 300, 1)},
          {"every expert for every token", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, true, equal(4, 64), k_by_n, k_by_n, 60, 4)},
          {"width 1408", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, false, equal(3, 1408), n_by_k, n_by_k, 40, 2, 128)},
          {"width 2880", bf16, bf16, 0,
           shape(glu, clamped_swiglu(), Place::output, true, equal(2, 2880), k_by_n, k_by_n, 30, 2, 96)},
          {"one token", bf16, bf16, 0,
           shape(glu, function(F::silu), Place::output, true, equal(8, 64), n_by_k, n_by_k, 1, 3)}};
}

/// Every variant with `times` its tokens, in every way: how many rows an expert has decides what is fused,
/// and fusing leaves every bit as it is.
void require_agreement(std::int64_t times) {
  for (Variant variant : variants()) {
    variant.shape.tokens *= times;
    INFO(variant.name << ", " << variant.shape.tokens << " tokens");
    ExpertMlpCase host(variant.shape);
    DeviceLayer layer(host, variant.type, variant.gradient_type, variant.pad,
                      derivative_jumps(variant.shape.activation) ? LayerValues::exact : LayerValues::any);
    const NamedValues expected = layer.expected();
    std::vector<std::vector<unsigned char>> composed;
    for (const LayerWay& way : layer_ways) {
      INFO(way.name);
      layer.poison();
      layer.run(way);
      require_close(layer.results(), expected, variant.type);
      const std::vector<std::vector<unsigned char>> trained = layer.bits();
      if (way.path == KernelPath::automatic && way.composed)
        composed = trained;
      else if (way.path == KernelPath::automatic)
        for (std::size_t i = 0; i < trained.size(); ++i) check_same_bits(trained[i], composed[i]);
      layer.poison();
      layer.infer(way);
      check_same_bits(layer.bits()[out_bits], trained[out_bits]);
      REQUIRE(layer.guards_intact());
    }
  }
}

}  // namespace

TEST_CASE("the expert layer agrees with the CPU's: outputs and every gradient", "[small]") {
  require_agreement(1);
  require_agreement(4);
}

TEST_CASE("an expert layer over hundreds of rows an expert agrees with the CPU's") { require_agreement(12); }
