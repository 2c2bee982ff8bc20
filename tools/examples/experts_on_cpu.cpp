// A layer's experts on the CPU, for trying things where there is no GPU: layer_on_gpu.cu in float, as one
// call of the CPU reference.
#include "dropless/expert_mlp_reference.hpp"
#include "exit_code.hpp"
#include "toy_layer.hpp"

namespace {

using namespace dropless;
using namespace toy;

std::vector<float> expert_layer(const std::vector<float>& x, const std::vector<float>& w1,
                                const std::vector<float>& w2) {
  HostExpertMlp<float> mlp;
  mlp.kind = MlpKind::linear2;
  mlp.activation.function = ActivationFunction::relu;
  for (HostExpertWeights<float>* weights : {&mlp.up, &mlp.down}) {
    weights->experts = experts;
    weights->leading_dimension = d_model;
    weights->first.expert_stride = expert_elements;
  }
  mlp.up.k = mlp.down.n = d_model;
  mlp.up.n = mlp.down.k = d_ff;
  mlp.up.order = WeightOrder::n_by_k;
  mlp.up.first.data = w1.data();
  mlp.down.first.data = w2.data();

  const HostExpertMlpBatch<float> batch{
      tokens, top_k, expert_ids, routing_weights.data(), {x.data(), d_model}};
  std::vector<float> y(tokens * d_model);
  reference_expert_mlp_forward(mlp, batch, {y.data(), d_model});
  return y;
}

}  // namespace

int main() {
  return exit_code([] { return check(expert_layer(make_x(), make_w1(), make_w2())); });
}
