// A layer's experts on the GPU in one call, from router ids to each token's output: topology, both products
// with the activation between them, and the weighted sum over the slots. All memory is the caller's; only
// check() waits.
#include "device_values.cuh"
#include "dropless/expert_mlp.hpp"
#include "gpu_exit_code.hpp"
#include "toy_layer.hpp"

namespace {

using namespace dropless;
using namespace toy;

bool run(Stream stream) {
  thrust::device_vector<std::int32_t> ids = expert_ids;
  thrust::device_vector<float> weights = routing_weights;
  DeviceValues x = to_device(make_x()), w1 = to_device(make_w1()), w2 = to_device(make_w2());
  DeviceValues y(tokens * d_model);

  // w1 and w2 are [experts, d_ff, d_model]: n by k for the up product, k by n for the down product.
  const ElementType bf16 = ElementType::bf16;
  const WeightTensor w1_tensor{pointer(w1), expert_elements}, w2_tensor{pointer(w2), expert_elements};
  const ExpertWeights up{bf16, experts, d_model, d_ff, WeightOrder::n_by_k, d_model, w1_tensor};
  const ExpertWeights down{bf16, experts, d_ff, d_model, WeightOrder::k_by_n, d_model, w2_tensor};
  const ExpertMlp mlp{MlpKind::linear2, {ActivationFunction::relu}, up, down};

  const ExpertMlpBatch batch{
      {tokens, top_k, experts}, {pointer(ids)}, pointer(weights), {pointer(x), d_model}};
  const ExpertMlpOptions options;
  const DeviceMemory saved;  // none: inference
  thrust::device_vector<char> workspace(
      expert_mlp_forward_workspace_bytes(mlp, batch.bounds, options, /*saves=*/false));
  const Topology topology = expert_mlp_forward(mlp, batch, {pointer(y), d_model}, options, saved,
                                               {pointer(workspace), workspace.size()}, stream);
  check(topology, stream);  // waits; throws where the router gave ids that no expert has
  return check(to_host(y));
}

}  // namespace

int main() {
  return gpu_exit_code([] { return run(nullptr); });
}
