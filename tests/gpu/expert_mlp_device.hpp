// An expert layer in device memory: the operands of a layer case of the CPU, rounded to a 16-bit type on both
// sides, with everything that the calls write poisoned and guarded; and the CPU's results to compare with.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "device_buffer.hpp"
#include "dropless/expert_mlp.hpp"
#include "host/expert_mlp_case.hpp"

namespace dropless::test {

/// The ways in which a layer can be computed.
struct LayerWay {
  const char* name;
  KernelPath path;
  bool composed;
};
inline constexpr LayerWay layer_ways[] = {{"portable", KernelPath::portable, true},
                                          {"automatic, composed", KernelPath::automatic, true},
                                          {"automatic", KernelPath::automatic, false}};

/// Results with their names: what a case's vectors hold.
using NamedValues = std::vector<std::pair<std::string, std::vector<double>>>;

/// Requires of each result the accuracy of a whole layer: relative Frobenius error 8e-3 (bf16), 2e-3 (fp16).
void require_close(const NamedValues& results, const NamedValues& expected, ElementType type);

/// Values of the operands. `exact`: such that the pre-activation is exact in 16 bits, for activations whose
/// derivative jumps: a rounded p may lie on the other side of the jump.
enum class LayerValues { any, exact };

/// Which of DeviceLayer::bits() is what: those that are by token, and so do not depend on the batch.
constexpr std::size_t out_bits = 0, x_gradient_bits = 1, weights_gradient_bits = 7;
constexpr std::size_t bits_by_token[] = {out_bits, x_gradient_bits, weights_gradient_bits};

/// Checks without printing thousands of numbers.
inline void check_same_bits(const std::vector<unsigned char>& left, const std::vector<unsigned char>& right) {
  const bool same = left == right;
  CHECK(same);
}

class DeviceLayer {
 public:
  /// Scales the case's weights so that values are of order one, and rounds all its operands to `type`. Rows
  /// of x, out and their gradients are d_model + `pad` elements apart.
  DeviceLayer(ExpertMlpCase& of, ElementType element_type, ElementType type_of_gradients,
              std::int64_t pad = 0, LayerValues values = LayerValues::any);

  ExpertMlp mlp() const;
  /// `count` tokens from `first` on.
  ExpertMlpBatch batch(std::int64_t first, std::int64_t count) const;
  ExpertMlpBatch batch() const { return batch(0, host.shape.tokens); }
  MutableRowsView out(std::int64_t first = 0) const { return rows(out_, first); }
  RowsView out_gradient(std::int64_t first = 0) const { return rows_read(out_gradient_, first); }
  ExpertMlpGradients gradients(std::int64_t first = 0) const;
  ExpertMlpOptions options(const LayerWay& way) const;

  /// One forward and one backward over some tokens, in memory of exactly the bytes that are asked for.
  void run(const LayerWay& way, std::int64_t first, std::int64_t count, bool accumulate);
  void run(const LayerWay& way) { run(way, 0, host.shape.tokens, false); }
  /// Forward alone, nothing saved.
  void infer(const LayerWay& way, std::int64_t first, std::int64_t count);
  void infer(const LayerWay& way) { infer(way, 0, host.shape.tokens); }

  /// Everything that the calls write, back to poison.
  void poison();
  NamedValues results() const;
  NamedValues expected() const;
  std::vector<double> out_values() const {
    return values(out_, host.shape.tokens, host.shape.d_model, pitch_, type);
  }
  /// Whether nothing was written around the operands, nor between rows.
  bool guards_intact() const;
  /// The bits of everything written by the calls.
  std::vector<std::vector<unsigned char>> bits() const;

  ExpertMlpCase& host;
  const ElementType type, gradient_type;
  DeviceBuffer<std::int32_t> ids;

 private:
  using Bytes = DeviceBuffer<unsigned char>;
  MutableRowsView rows(const Bytes& buffer, std::int64_t first) const;
  RowsView rows_read(const Bytes& buffer, std::int64_t first) const;
  ExpertGradients expert_gradients(const Bytes& buffer, std::int64_t m, std::int64_t n) const;
  std::vector<const Bytes*> written() const;
  bool padding_intact(const Bytes& buffer) const;
  static std::vector<double> values(const Bytes& buffer, std::int64_t rows, std::int64_t columns,
                                    std::int64_t pitch, ElementType element_type);

  struct Weights {
    std::vector<Bytes> tensors;
    DeviceBuffer<const void*> first, second;
    DeviceBuffer<std::int32_t> d_ff, d_ff_begin;
    ExpertWeights view;
  };
  static std::unique_ptr<Weights> device_weights(Experts& experts, ElementType type);

  std::int64_t pitch_;
  std::unique_ptr<Weights> up_, down_;
  Bytes up_bias_, down_bias_, x_, out_gradient_;
  DeviceBuffer<float> routing_weights_;
  Bytes out_, x_gradient_, up_gradient_, up_second_gradient_, down_gradient_, up_bias_gradient_,
      down_bias_gradient_, weights_gradient_;
};

/// The layer's two entries, from tokens and from rows, under one name each.
struct LayerFromTokens {
  using Batch = ExpertMlpBatch;
  static const TopologyBounds& size_of(const Batch& batch) { return batch.bounds; }
  static constexpr auto saved_bytes = expert_mlp_saved_bytes;
  static constexpr auto forward_bytes = expert_mlp_forward_workspace_bytes;
  static constexpr auto backward_bytes = expert_mlp_backward_workspace_bytes;
  static constexpr auto forward = expert_mlp_forward;
  static constexpr auto backward = expert_mlp_backward;
};
struct LayerFromRows {
  using Batch = ExpertMlpRows;
  static const ExpertRows& size_of(const Batch& batch) { return batch.rows; }
  static constexpr auto saved_bytes = expert_mlp_rows_saved_bytes;
  static constexpr auto forward_bytes = expert_mlp_rows_forward_workspace_bytes;
  static constexpr auto backward_bytes = expert_mlp_rows_backward_workspace_bytes;
  static constexpr auto forward = expert_mlp_rows_forward;
  static constexpr auto backward = expert_mlp_rows_backward;
};

/// The caller's memory of one batch, of exactly the bytes that are asked for.
template <class Entry>
struct MemoryOfLayer {
  using Batch = typename Entry::Batch;
  MemoryOfLayer(const DeviceLayer& layer, const Batch& batch, const ExpertMlpOptions& options)
      : saved(Entry::saved_bytes(layer.mlp(), Entry::size_of(batch))),
        forward(Entry::forward_bytes(layer.mlp(), Entry::size_of(batch), options, true)),
        backward(Entry::backward_bytes(layer.mlp(), Entry::size_of(batch), options)) {}

  void run_forward(const DeviceLayer& layer, const Batch& batch, const MutableRowsView& out,
                   const ExpertMlpOptions& options, Stream stream = nullptr) const {
    Entry::forward(layer.mlp(), batch, out, options, view(saved), view(forward), stream);
  }
  void run_backward(const DeviceLayer& layer, const Batch& batch, const RowsView& out_gradient,
                    const ExpertMlpGradients& gradients, const ExpertMlpOptions& options,
                    Stream stream = nullptr) const {
    Entry::backward(layer.mlp(), batch, out_gradient, gradients, options, view(saved), view(backward),
                    stream);
  }
  static DeviceMemory view(const DeviceBuffer<unsigned char>& buffer) {
    return {buffer.data(), buffer.size()};
  }
  bool guards_intact() const {
    return saved.guards_intact() && forward.guards_intact() && backward.guards_intact();
  }

  DeviceBuffer<unsigned char> saved, forward, backward;
};
using LayerMemory = MemoryOfLayer<LayerFromTokens>;

}  // namespace dropless::test
