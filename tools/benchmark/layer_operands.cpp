// Sizes and fills the operands of a timed layer.
#include "layer_operands.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_check.hpp"
#include "device_fill.hpp"

namespace dropless::benchmark {
namespace {

ExpertWeights weights_of(std::int64_t experts, std::int64_t k, std::int64_t n, ElementType type,
                         WeightOrder order) {
  ExpertWeights weights;
  weights.type = type;
  weights.experts = experts;
  weights.k = k;
  weights.n = n;
  weights.order = order;
  weights.leading_dimension = order == WeightOrder::k_by_n ? n : k;
  return weights;
}

ExpertMlp mlp_of(const BenchmarkCase& of, ElementType type, WeightOrder order) {
  ExpertMlp mlp;
  mlp.kind = of.mlp;
  mlp.activation.function = of.mlp == MlpKind::glu ? ActivationFunction::silu : ActivationFunction::gelu_erf;
  mlp.up = weights_of(of.experts, of.d_model, up_columns(of.mlp, of.d_ff), type, order);
  mlp.down = weights_of(of.experts, of.d_ff, of.d_model, type, order);
  return mlp;
}

ExpertMlpBatch batch_of(const BenchmarkCase& of) {
  ExpertMlpBatch batch;
  batch.bounds = {of.tokens, of.top_k, of.experts, {}};
  return batch;
}

std::size_t bytes_of(const ExpertWeights& weights) {
  return static_cast<std::size_t>(weights.experts * weights.k * weights.n * element_bytes(weights.type));
}

std::size_t token_bytes(const BenchmarkCase& of) {
  return static_cast<std::size_t>(of.tokens * of.d_model * element_bytes(ElementType::bf16));
}

std::size_t workspace_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds, bool backward) {
  if (!backward) return expert_mlp_forward_workspace_bytes(mlp, bounds, {}, false);
  return std::max({expert_mlp_forward_workspace_bytes(mlp, bounds, {}, false),
                   expert_mlp_forward_workspace_bytes(mlp, bounds, {}, true),
                   expert_mlp_backward_workspace_bytes(mlp, bounds, {})});
}

void fill(const DeviceMemory& memory, ElementType type, std::uint32_t seed, double deviation, Stream stream) {
  fill_random(memory.data(), static_cast<std::int64_t>(memory.bytes()) / element_bytes(type), type, seed,
              static_cast<float>(deviation), stream);
}

ExpertGradients gradients_of(const ExpertWeights& weights, const DeviceMemory& memory) {
  ExpertGradients gradients;
  gradients.type = weights.type;
  gradients.experts = weights.experts;
  gradients.m = weights.k;
  gradients.n = weights.n;
  gradients.leading_dimension = weights.n;
  gradients.expert_stride = weights.k * weights.n;
  gradients.data = memory.data();
  return gradients;
}

}  // namespace

LayerOperands::LayerOperands(const BenchmarkCase& of, ElementType type, WeightOrder order, bool backward,
                             Stream stream)
    : mlp_(mlp_of(of, type, order)),
      batch_(batch_of(of)),
      inference_bytes_(expert_mlp_forward_workspace_bytes(mlp_, batch_.bounds, {}, false)),
      ids_(static_cast<std::size_t>(of.tokens * of.top_k) * sizeof(std::int32_t)),
      routing_weights_(static_cast<std::size_t>(of.tokens * of.top_k) * sizeof(float)),
      up_(bytes_of(mlp_.up)),
      down_(bytes_of(mlp_.down)),
      x_(token_bytes(of)),
      out_(token_bytes(of)),
      out_gradient_(token_bytes(of)),
      x_gradient_(backward ? token_bytes(of) : 0),
      up_gradient_(backward ? bytes_of(mlp_.up) : 0),
      down_gradient_(backward ? bytes_of(mlp_.down) : 0),
      weights_gradient_(backward ? routing_weights_.bytes() : 0),
      saved_(backward ? expert_mlp_saved_bytes(mlp_, batch_.bounds) : 0),
      workspace_(workspace_bytes(mlp_, batch_.bounds, backward)) {
  const std::vector<std::int32_t> ids = router_ids(of);
  const std::vector<float> weights(ids.size(), 1.0f / static_cast<float>(of.top_k));
  DROPLESS_CUDA_CHECK(cudaMemcpy(ids_.data(), ids.data(), ids_.bytes(), cudaMemcpyHostToDevice));
  DROPLESS_CUDA_CHECK(
      cudaMemcpy(routing_weights_.data(), weights.data(), routing_weights_.bytes(), cudaMemcpyHostToDevice));
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for the default stream
  fill(up_, type, 1, 1 / std::sqrt(static_cast<double>(of.d_model)), stream);
  fill(down_, type, 2, 1 / std::sqrt(static_cast<double>(of.d_ff)), stream);
  fill(x_, type, 3, 1, stream);
  fill(out_gradient_, type, 4, 1, stream);
  mlp_.up.first = {up_.data(), mlp_.up.k * mlp_.up.n, nullptr};
  mlp_.down.first = {down_.data(), mlp_.down.k * mlp_.down.n, nullptr};
  batch_.ids.data = ids_.data();
  batch_.routing_weights = static_cast<const float*>(routing_weights_.data());
  batch_.x = {x_.data(), of.d_model, type};
}

ExpertMlpGradients LayerOperands::gradients() const {
  ExpertMlpGradients gradients;
  gradients.x = {x_gradient_.data(), mlp_.up.k, mlp_.up.type};
  gradients.up = gradients_of(mlp_.up, up_gradient_);
  gradients.down = gradients_of(mlp_.down, down_gradient_);
  gradients.routing_weights = static_cast<float*>(weights_gradient_.data());
  return gradients;
}

void LayerOperands::forward(const ExpertMlpOptions& options, Stream stream) const {
  expert_mlp_forward(mlp_, batch_, out_view(), options, {}, workspace(), stream);
}

void LayerOperands::forward_backward(const ExpertMlpOptions& options, Stream stream) const {
  expert_mlp_forward(mlp_, batch_, out_view(), options, saved(), workspace(), stream);
  expert_mlp_backward(mlp_, batch_, out_gradient(), gradients(), options, saved(), workspace(), stream);
}

}  // namespace dropless::benchmark
