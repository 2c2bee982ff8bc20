// The operands of one timed expert layer in memory of their own: weights, tokens, routing, gradients and the
// caller's memory for both calls.
#pragma once
#include <cstdint>

#include "benchmark_cases.hpp"
#include "device_memory.hpp"
#include "dropless/expert_mlp.hpp"

namespace dropless::benchmark {

class LayerOperands {
 public:
  /// silu in glu, gelu in linear2; weights in `order`. With `backward` also what backward needs.
  LayerOperands(const BenchmarkCase& benchmark_case, ElementType type, WeightOrder order, bool backward,
                Stream stream);

  /// Ids to output, nothing saved.
  void forward(const ExpertMlpOptions& options, Stream stream) const;
  /// Forward that saves, and backward to all gradients.
  void forward_backward(const ExpertMlpOptions& options, Stream stream) const;

  const ExpertMlp& mlp() const { return mlp_; }
  const ExpertMlpBatch& batch() const { return batch_; }
  const DeviceMemory& out() const { return out_; }
  MutableRowsView out_view() const { return {out_.data(), mlp_.up.k, mlp_.up.type}; }
  RowsView out_gradient() const { return {out_gradient_.data(), mlp_.up.k, mlp_.up.type}; }
  ExpertMlpGradients gradients() const;
  std::size_t inference_bytes() const { return inference_bytes_; }
  std::size_t training_bytes() const { return saved_.bytes() + workspace_.bytes(); }

 private:
  dropless::DeviceMemory saved() const { return {saved_.data(), saved_.bytes()}; }
  dropless::DeviceMemory workspace() const { return {workspace_.data(), workspace_.bytes()}; }

  ExpertMlp mlp_;
  ExpertMlpBatch batch_;
  std::size_t inference_bytes_;
  DeviceMemory ids_, routing_weights_, up_, down_, x_, out_, out_gradient_;
  DeviceMemory x_gradient_, up_gradient_, down_gradient_, weights_gradient_;
  DeviceMemory saved_, workspace_;
};

}  // namespace dropless::benchmark
