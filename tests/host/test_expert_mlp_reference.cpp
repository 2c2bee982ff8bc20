// The CPU expert layer against a second evaluation, token by token from the formulas, and its gradients
// against finite differences of that evaluation: every kind, activation and weight place, every storage of
// the weights.
#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "expert_mlp_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

double naive_function(const Activation& activation, double x) {
  switch (activation.function) {
    case ActivationFunction::silu:
      return x / (1 + std::exp(-static_cast<double>(activation.alpha) * x));
    case ActivationFunction::gelu_erf:
      return x * (1 + std::erf(x * std::sqrt(0.5))) / 2;
    case ActivationFunction::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3))));
    case ActivationFunction::relu:
      return x > 0 ? x : 0;
    default:
      return x > 0 ? x * x : 0;
  }
}

double naive_activation(const ExpertMlpCase& layer, const std::vector<double>& p, std::size_t f) {
  const Activation& activation = layer.shape.activation;
  if (layer.shape.kind == MlpKind::linear2) return naive_function(activation, p[f]);
  const double gate = p[f], up = p[p.size() / 2 + f], limit = static_cast<double>(activation.limit);
  return naive_function(activation, gate > limit ? limit : gate) *
         ((up > limit    ? limit
           : up < -limit ? -limit
                         : up) +
          static_cast<double>(activation.up_offset));
}

/// out[t, :] = sum over slots, straight from the formulas, on the experts' dense matrices.
std::vector<double> naive_forward(const ExpertMlpCase& layer) {
  const auto d_model = static_cast<std::size_t>(layer.shape.d_model);
  const auto top_k = static_cast<std::size_t>(layer.shape.top_k), up_n = static_cast<std::size_t>(layer.up_n);
  std::vector<double> out(layer.x.size(), 0.0);
  for (std::size_t assignment = 0; assignment < layer.ids.size(); ++assignment) {
    if (layer.ids[assignment] < 0) continue;
    const auto e = static_cast<std::size_t>(layer.ids[assignment]);
    const std::size_t token = assignment / top_k;
    const double weight = layer.routing_weights[assignment];
    const auto width = static_cast<std::size_t>(layer.up.widths[e]);
    std::vector<double> p(width);
    for (std::size_t j = 0; j < width; ++j) {
      for (std::size_t c = 0; c < d_model; ++c)
        p[j] += layer.x[token * d_model + c] * layer.up.matrices[e][c * width + j];
      if (layer.options.weight_place == RoutingWeightPlace::input) p[j] *= weight;
      if (layer.shape.biases) p[j] += layer.up_bias[e * up_n + j];
    }
    for (std::size_t c = 0; c < d_model; ++c) {
      double z = layer.shape.biases ? layer.down_bias[e * d_model + c] : 0.0;
      for (std::size_t f = 0; f < static_cast<std::size_t>(layer.down.widths[e]); ++f)
        z += naive_activation(layer, p, f) * layer.down.matrices[e][f * d_model + c];
      if (layer.options.weight_place == RoutingWeightPlace::output) z *= weight;
      out[token * d_model + c] += static_cast<double>(layer.options.output_scale) * z;
    }
  }
  return out;
}

double naive_loss(const ExpertMlpCase& layer) {
  const std::vector<double> out = naive_forward(layer);
  double loss = 0;
  for (std::size_t i = 0; i < out.size(); ++i) loss += out[i] * layer.out_gradient[i];
  return loss;
}

double finite_difference(const ExpertMlpCase& layer, double& parameter) {
  const double at = parameter, step = 1e-5;
  parameter = at + step;
  const double above = naive_loss(layer);
  parameter = at - step;
  const double below = naive_loss(layer);
  parameter = at;
  return (above - below) / (2 * step);
}

/// Columns past an expert's width are left at zero.
CaseGradients finite_differences(ExpertMlpCase& layer) {
  CaseGradients result(layer);
  const auto differentiate = [&](std::vector<double>& gradient, std::vector<double>& parameters) {
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = finite_difference(layer, parameters[i]);
  };
  differentiate(result.x, layer.x);
  differentiate(result.routing_weights, layer.routing_weights);
  const auto d_model = static_cast<std::size_t>(layer.shape.d_model),
             d_ff = static_cast<std::size_t>(layer.d_ff);
  const auto n = static_cast<std::size_t>(layer.up_n) / (result.up_second.empty() ? 1 : 2);
  for (std::size_t e = 0; e < layer.up.matrices.size(); ++e) {
    const auto width = static_cast<std::size_t>(layer.up.widths[e]);
    const std::size_t in_first = result.up_second.empty() ? width : width / 2;
    for (std::size_t c = 0; c < d_model; ++c)
      for (std::size_t j = 0; j < width; ++j)
        (j < in_first ? result.up : result.up_second)[(e * d_model + c) * n + j % in_first] =
            finite_difference(layer, layer.up.matrices[e][c * width + j]);
    for (std::size_t i = 0; i < layer.down.matrices[e].size(); ++i)
      result.down[e * d_ff * d_model + i] = finite_difference(layer, layer.down.matrices[e][i]);
  }
  differentiate(result.up_bias, layer.up_bias);
  differentiate(result.down_bias, layer.down_bias);
  return result;
}

void check_layer(const ExpertMlpShape& shape) {
  ExpertMlpCase layer(shape);
  const std::vector<double> expected_out = naive_forward(layer);
  CaseGradients expected = finite_differences(layer);
  for (const bool accumulate : {false, true}) {
    layer.options.accumulate = accumulate;
    const std::vector<double> out = layer.forward(0.5);
    for (std::size_t i = 0; i < out.size(); ++i)
      REQUIRE(out[i] == Approx(expected_out[i] + (accumulate ? 0.5 : 0)).epsilon(1e-12).margin(1e-12));
    CaseGradients gradients(layer, 0.5);
    gradients.add_backward(layer);
    const auto computed = gradients.all(), differentiated = expected.all();
    for (std::size_t which = 0; which < computed.size(); ++which) {
      const auto& [name, values] = computed[which];
      const std::vector<double>& differences = *differentiated[which].second;
      const bool added = accumulate && values != &gradients.x && values != &gradients.routing_weights;
      INFO("gradient of " << name << ", accumulate " << accumulate);
      for (std::size_t i = 0; i < differences.size(); ++i)
        REQUIRE((*values)[i] == Approx(differences[i] + (added ? 0.5 : 0)).epsilon(1e-6).margin(1e-6));
    }
  }
}

}  // namespace

TEST_CASE("the CPU layer equals its formulas for every kind, activation, weight place and bias",
          "[reference]") {
  std::vector<std::pair<MlpKind, Activation>> activations{
      {MlpKind::linear2, {ActivationFunction::relu_squared}},
      {MlpKind::linear2, {ActivationFunction::silu, 1.702F}},
      {MlpKind::glu, {ActivationFunction::silu, 1.702F, 7, 1}},
      {MlpKind::glu, {ActivationFunction::silu, 1.702F, 0.5F, 1}},
      {MlpKind::glu, {ActivationFunction::gelu_tanh, 1, 0.75F, -0.5F}}};
  for (const ActivationFunction function : {ActivationFunction::silu, ActivationFunction::gelu_erf,
                                            ActivationFunction::gelu_tanh, ActivationFunction::relu})
    for (const MlpKind kind : {MlpKind::linear2, MlpKind::glu}) activations.push_back({kind, {function}});
  ExpertMlpShape shape;
  for (const auto& [kind, activation] : activations)
    for (const auto place : {RoutingWeightPlace::output, RoutingWeightPlace::input, RoutingWeightPlace::none})
      for (const bool biases : {false, true})
        for (const double magnitude : {1.0, 10.0}) {
          INFO(mlp_kind_name(kind) << ' ' << activation_function_name(activation.function) << " limit "
                                   << activation.limit << " weights at " << static_cast<int>(place)
                                   << " biases " << biases << " magnitude " << magnitude);
          shape.kind = kind;
          shape.activation = activation;
          shape.weight_place = place;
          shape.biases = biases;
          shape.magnitude = magnitude;
          shape.seed += 1000;
          check_layer(shape);
        }
}

TEST_CASE("the CPU layer equals its formulas in every storage of the weights", "[reference]") {
  ExpertMlpShape shape;
  shape.activation.limit = 1;
  for (const MlpKind kind : {MlpKind::linear2, MlpKind::glu})
    for (const WeightOrder order : {WeightOrder::k_by_n, WeightOrder::n_by_k})
      for (const bool two_tensors : {false, true})
        for (const bool separate : {false, true})
          for (const auto& d_ff : {std::vector<std::int64_t>{6, 6, 6}, {4, 0, 6, 2}}) {
            INFO(mlp_kind_name(kind) << " n_by_k " << (order == WeightOrder::n_by_k) << " two " << two_tensors
                                     << " separate " << separate << " experts " << d_ff.size());
            shape.kind = kind;
            shape.activation.limit = kind == MlpKind::glu ? 1 : std::numeric_limits<float>::infinity();
            shape.d_ff = d_ff;
            shape.up_storage = {order, two_tensors, separate, 3};
            shape.down_storage = {order, false, separate, 2};
            shape.seed += 1000;
            check_layer(shape);
          }
}

TEST_CASE("the CPU layer equals its formulas at d_ff 100, for one expert and for all of them",
          "[reference]") {
  ExpertMlpShape shape;
  shape.activation = {ActivationFunction::silu, 1.702F, 7, 1};
  shape.tokens = 3;
  SECTION("d_ff 100") { shape.d_ff = {100, 100}; }
  SECTION("E 1") {
    shape.d_ff = {6};
    shape.top_k = 1;
  }
  SECTION("k = E") { shape.top_k = 3; }
  check_layer(shape);
}
