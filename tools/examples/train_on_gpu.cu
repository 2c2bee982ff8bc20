// Trains a layer of experts and its router on the GPU: the loop of toy_training.hpp, whose loss falls. The
// float parameters stay on the host; each step copies them over as bf16, and the gradients back as float.
#include <algorithm>
#include "device_values.cuh"
#include "dropless/expert_mlp.hpp"
#include "gpu_exit_code.hpp"
#include "toy_training.hpp"

namespace {

using namespace dropless;
using namespace toy;
using training::Parameters, training::Routing, training::Values;

constexpr std::int64_t experts = training::experts, d_model = training::d_model, d_ff = training::d_ff;
constexpr TopologyBounds bounds{training::tokens, training::top_k, experts};
constexpr ExpertMlpOptions options;
constexpr Stream stream = nullptr;

using DeviceFloats = thrust::device_vector<float>;
using DeviceBytes = thrust::device_vector<char>;

DeviceMemory memory(DeviceBytes& bytes) { return {pointer(bytes), bytes.size()}; }

ExpertWeights weights_of(DeviceValues& values, std::int64_t k, std::int64_t n) {
  return {ElementType::bf16, experts, k, n, WeightOrder::k_by_n, n, {pointer(values), k * n}};
}

ExpertGradients gradient_into(DeviceFloats& values, std::int64_t m, std::int64_t n) {
  return {ElementType::fp32, experts, m, n, n, m * n, pointer(values)};
}

class ExpertsOnGpu {
 public:
  Values forward(const Parameters& parameters, const Routing& routing, const Values& x) {
    up_ = to_device(parameters.up);
    up_bias_ = to_device(parameters.up_bias);
    down_ = to_device(parameters.down);
    down_bias_ = to_device(parameters.down_bias);
    ids_ = routing.ids;
    routing_weights_ = routing.weights;
    x_ = to_device(x);
    out_.resize(x.size());
    saved_.resize(expert_mlp_saved_bytes(mlp(), bounds));
    workspace_.resize(std::max(expert_mlp_forward_workspace_bytes(mlp(), bounds, options, /*saves=*/true),
                               expert_mlp_backward_workspace_bytes(mlp(), bounds, options)));
    expert_mlp_forward(mlp(), batch(), {pointer(out_), d_model}, options, memory(saved_), memory(workspace_),
                       stream);
    return to_host(out_);
  }

  Values backward(const Values& out_gradient, Parameters& gradient) {
    DeviceValues incoming = to_device(out_gradient);
    DeviceFloats up(up_.size()), up_bias(up_bias_.size()), down(down_.size()), down_bias(down_bias_.size()),
        routing_weights(routing_weights_.size());
    ExpertMlpGradients gradients;
    gradients.up = gradient_into(up, d_model, 2 * d_ff);
    gradients.down = gradient_into(down, d_ff, d_model);
    gradients.up_bias = pointer(up_bias);
    gradients.down_bias = pointer(down_bias);
    gradients.routing_weights = pointer(routing_weights);
    expert_mlp_backward(mlp(), batch(), {pointer(incoming), d_model}, gradients, options, memory(saved_),
                        memory(workspace_), stream);
    gradient.up = to_host(up);
    gradient.up_bias = to_host(up_bias);
    gradient.down = to_host(down);
    gradient.down_bias = to_host(down_bias);
    return to_host(routing_weights);
  }

 private:
  ExpertMlp mlp() {
    return {MlpKind::glu,
            {ActivationFunction::silu},
            weights_of(up_, d_model, 2 * d_ff),
            weights_of(down_, d_ff, d_model),
            pointer(up_bias_),
            pointer(down_bias_)};
  }
  ExpertMlpBatch batch() {
    return {bounds, {pointer(ids_)}, pointer(routing_weights_), {pointer(x_), d_model}};
  }

  DeviceValues up_, up_bias_, down_, down_bias_, x_, out_;
  thrust::device_vector<std::int32_t> ids_;
  DeviceFloats routing_weights_;
  DeviceBytes saved_, workspace_;
};

}  // namespace

int main() {
  return gpu_exit_code([] { return training::train(ExpertsOnGpu()); });
}
