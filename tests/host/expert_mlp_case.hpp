// A random expert layer with its batch, and the gradients of one backward call, for the tests of the CPU
// layer.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/expert_mlp_reference.hpp"
#include "routing.hpp"
#include "stored_experts.hpp"

namespace dropless::test {

struct ExpertMlpShape {
  MlpKind kind = MlpKind::glu;
  Activation activation{};
  RoutingWeightPlace weight_place = RoutingWeightPlace::output;
  bool biases = true;
  std::int64_t tokens = 5, top_k = 2, d_model = 4;
  std::vector<std::int64_t> d_ff = {6, 6, 6};  // of each expert
  Storage up_storage{WeightOrder::k_by_n, false, false, 0};
  Storage down_storage{WeightOrder::k_by_n, false, false, 0};
  double magnitude = 1;  // of the tokens
  std::uint32_t seed = 1;
};

/// Holds what its views point to: keep it where it was made.
struct ExpertMlpCase {
  ExpertMlpShape shape;
  std::int64_t experts, d_ff, up_n;  // the widest expert's widths
  Experts up, down;
  std::vector<double> up_bias, down_bias, x, out_gradient, routing_weights;
  std::vector<std::int32_t> ids;
  ExpertMlpOptions options;

  explicit ExpertMlpCase(const ExpertMlpShape& of)
      : shape(of),
        experts(static_cast<std::int64_t>(of.d_ff.size())),
        d_ff(*std::max_element(of.d_ff.begin(), of.d_ff.end())),
        up_n(up_columns(of.kind, d_ff)),
        up(make_experts(of.d_model, up_n, true, up_widths(of), of.up_storage, of.seed)),
        down(make_experts(d_ff, of.d_model, false, of.d_ff, of.down_storage, of.seed + 100)),
        up_bias(random_values<double>(of.biases ? experts * up_n : 0, of.seed + 200)),
        down_bias(random_values<double>(of.biases ? experts * of.d_model : 0, of.seed + 201)),
        x(random_values<double>(of.tokens * of.d_model, of.seed + 202)),
        out_gradient(random_values<double>(of.tokens * of.d_model, of.seed + 203)),
        routing_weights(random_values<double>(of.tokens * of.top_k, of.seed + 204)),
        ids(random_expert_ids(of.tokens, static_cast<int>(of.top_k), static_cast<int>(experts), of.seed + 205,
                              0, 20)) {
    for (double& value : x) value *= of.magnitude;
    options.weight_place = of.weight_place;
    options.output_scale = 1.5F;
  }
  ExpertMlpCase(const ExpertMlpCase&) = delete;
  ExpertMlpCase& operator=(const ExpertMlpCase&) = delete;

  bool weighted() const { return options.weight_place != RoutingWeightPlace::none; }
  HostExpertMlp<double> mlp() const {
    return {shape.kind,
            shape.activation,
            up.weights,
            down.weights,
            shape.biases ? up_bias.data() : nullptr,
            shape.biases ? down_bias.data() : nullptr};
  }
  HostExpertMlpBatch<double> batch() const {
    return {shape.tokens,
            shape.top_k,
            ids,
            weighted() ? routing_weights.data() : nullptr,
            {x.data(), shape.d_model}};
  }
  std::vector<double> forward(double before = 0) const {
    std::vector<double> out(static_cast<std::size_t>(shape.tokens * shape.d_model), before);
    reference_expert_mlp_forward(mlp(), batch(), {out.data(), shape.d_model}, options);
    return out;
  }

 private:
  static std::vector<std::int64_t> up_widths(const ExpertMlpShape& shape) {
    std::vector<std::int64_t> widths;
    for (const std::int64_t width : shape.d_ff) widths.push_back(up_columns(shape.kind, width));
    return widths;
  }
};

/// Every gradient of a case, each full of `before` to begin with.
struct CaseGradients {
  std::vector<double> x, up, up_second, down, up_bias, down_bias, routing_weights;

  explicit CaseGradients(const ExpertMlpCase& of, double before = 0) {
    const auto filled = [before](std::int64_t count) {
      return std::vector<double>(static_cast<std::size_t>(count), before);
    };
    const std::int64_t up_count = of.experts * of.shape.d_model * of.up_n;
    const bool two = of.shape.up_storage.two_tensors;
    x = filled(of.shape.tokens * of.shape.d_model);
    up = filled(two ? up_count / 2 : up_count);
    up_second = filled(two ? up_count / 2 : 0);
    down = filled(of.experts * of.d_ff * of.shape.d_model);
    up_bias = filled(of.shape.biases ? of.experts * of.up_n : 0);
    down_bias = filled(of.shape.biases ? of.experts * of.shape.d_model : 0);
    routing_weights = filled(of.weighted() ? of.shape.tokens * of.shape.top_k : 0);
  }
  HostExpertMlpGradients<double> view(const ExpertMlpCase& of) {
    const std::int64_t m = of.shape.d_model, n = up_second.empty() ? of.up_n : of.up_n / 2;
    HostExpertMlpGradients<double> gradients;
    gradients.x = {x.data(), m};
    gradients.up = {of.experts, m, n, n, m * n, up.data()};
    if (!up_second.empty()) gradients.up_second = {of.experts, m, n, n, m * n, up_second.data()};
    gradients.down = {of.experts, of.d_ff, m, m, of.d_ff * m, down.data()};
    if (!up_bias.empty()) gradients.up_bias = up_bias.data();
    if (!down_bias.empty()) gradients.down_bias = down_bias.data();
    if (!routing_weights.empty()) gradients.routing_weights = routing_weights.data();
    return gradients;
  }
  void add_backward(const ExpertMlpCase& of) {
    reference_expert_mlp_backward(of.mlp(), of.batch(), {of.out_gradient.data(), of.shape.d_model}, view(of),
                                  of.options);
  }
  /// Each gradient with its name.
  std::vector<std::pair<const char*, std::vector<double>*>> all() {
    return {{"x", &x},
            {"up", &up},
            {"up_second", &up_second},
            {"down", &down},
            {"up_bias", &up_bias},
            {"down_bias", &down_bias},
            {"routing_weights", &routing_weights}};
  }
};

}  // namespace dropless::test
