// Trains a layer of experts and its router on the CPU reference: the loop of toy_training.hpp, whose loss
// falls.
#include "dropless/expert_mlp_reference.hpp"
#include "exit_code.hpp"
#include "toy_training.hpp"

namespace {

using namespace dropless;
using training::Parameters, training::Routing, training::Values;

constexpr std::int64_t experts = training::experts, d_model = training::d_model, d_ff = training::d_ff;

HostExpertWeights<float> weights_of(const Values& values, std::int64_t k, std::int64_t n) {
  HostExpertWeights<float> weights;
  weights.experts = experts;
  weights.k = k;
  weights.n = n;
  weights.leading_dimension = n;
  weights.first = {values.data(), k * n, {}};
  return weights;
}

HostExpertGradients<float> gradient_into(Values& values, std::int64_t m, std::int64_t n) {
  values.resize(static_cast<std::size_t>(experts * m * n));
  return {experts, m, n, n, m * n, values.data()};
}

class ExpertsOnCpu {
 public:
  Values forward(const Parameters& parameters, const Routing& routing, const Values& x) {
    mlp_ = {MlpKind::glu,
            {ActivationFunction::silu},
            weights_of(parameters.up, d_model, 2 * d_ff),
            weights_of(parameters.down, d_ff, d_model),
            parameters.up_bias.data(),
            parameters.down_bias.data()};
    batch_ = {training::tokens, training::top_k, routing.ids, routing.weights.data(), {x.data(), d_model}};
    Values out(x.size());
    reference_expert_mlp_forward(mlp_, batch_, {out.data(), d_model});
    return out;
  }

  Values backward(const Values& out_gradient, Parameters& gradient) {
    Values routing_weights(batch_.ids.size());
    gradient.up_bias.resize(experts * 2 * d_ff);
    gradient.down_bias.resize(experts * d_model);
    HostExpertMlpGradients<float> gradients;
    gradients.up = gradient_into(gradient.up, d_model, 2 * d_ff);
    gradients.down = gradient_into(gradient.down, d_ff, d_model);
    gradients.up_bias = gradient.up_bias.data();
    gradients.down_bias = gradient.down_bias.data();
    gradients.routing_weights = routing_weights.data();
    reference_expert_mlp_backward(mlp_, batch_, {out_gradient.data(), d_model}, gradients);
    return routing_weights;
  }

 private:
  HostExpertMlp<float> mlp_;  // views of the last forward's operands
  HostExpertMlpBatch<float> batch_;
};

}  // namespace

int main() {
  return exit_code([] { return training::train(ExpertsOnCpu()); });
}
