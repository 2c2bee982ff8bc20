// The same experts behind a dispatcher of one's own: it has put the rows of each expert into a receive buffer
// [experts, capacity, d_model], as dispatchers between GPUs do, and each expert's weights are tensors of
// their own. The layer goes from those rows to rows in the same places; no topology is built, and no weight
// is copied.
#include <algorithm>
#include <cmath>

#include "device_values.cuh"
#include "dropless/expert_mlp.hpp"
#include "gpu_exit_code.hpp"
#include "toy_layer.hpp"

namespace {

using namespace dropless;
using namespace toy;

constexpr ElementType bf16 = ElementType::bf16;
constexpr std::int64_t capacity = tokens, buffer_rows = experts * capacity;

/// What a dispatcher did: each assignment's row in the buffer, or -1, and the rows of each expert.
struct Dispatch {
  std::vector<std::int64_t> row_of;
  std::vector<std::int32_t> row_begin, row_count;
  std::vector<float> x, row_weights;
};

Dispatch dispatched() {
  Dispatch sent{{}, {}, std::vector<std::int32_t>(experts), {}, std::vector<float>(buffer_rows)};
  for (std::int32_t expert = 0; expert < experts; ++expert) sent.row_begin.push_back(expert * capacity);
  sent.x.assign(buffer_rows * d_model, NAN);  // rows that no expert has are neither read nor written
  const std::vector<float> x = make_x();
  for (std::int64_t assignment = 0; assignment < assignments; ++assignment) {
    const std::int32_t expert = expert_ids[assignment];
    sent.row_of.push_back(expert < 0 ? -1 : sent.row_begin[expert] + sent.row_count[expert]++);
    if (expert < 0) continue;
    const std::int64_t row = sent.row_of.back(), token = assignment / top_k;
    std::copy_n(&x[token * d_model], d_model, &sent.x[row * d_model]);
    sent.row_weights[row] = routing_weights[assignment];
  }
  return sent;
}

/// The sum of each token's rows: the dispatcher's way back.
std::vector<float> returned(const Dispatch& sent, const std::vector<float>& y_rows) {
  std::vector<float> y(tokens * d_model);
  for (std::int64_t assignment = 0; assignment < assignments; ++assignment)
    for (std::int64_t column = 0; sent.row_of[assignment] >= 0 && column < d_model; ++column)
      y[assignment / top_k * d_model + column] += y_rows[sent.row_of[assignment] * d_model + column];
  return y;
}

/// [d_ff, d_model] of every expert in memory of its own, prepared once, when the model is loaded.
struct ExpertTensors {
  ExpertTensors(const std::vector<float>& all, Stream stream) : memory(separate_matrices_bytes(experts)) {
    for (std::int64_t expert = 0; expert < experts; ++expert) {
      const auto first = all.begin() + expert * expert_elements;
      tensors.push_back(to_device(std::vector<float>(first, first + expert_elements)));
    }
    std::vector<void*> addresses;
    for (DeviceValues& tensor : tensors) addresses.push_back(pointer(tensor));
    const SeparateMatrices prepared = prepare_separate_matrices(addresses, d_ff, d_model, d_model, bf16,
                                                                pointer(memory), memory.size(), stream);
    view.matrices = prepared.matrices;
    view.maps = prepared.maps;
  }

  std::vector<DeviceValues> tensors;
  thrust::device_vector<char> memory;
  WeightTensor view;
};

bool run(Stream stream) {
  const Dispatch sent = dispatched();
  thrust::device_vector<std::int32_t> row_begin = sent.row_begin, row_count = sent.row_count;
  thrust::device_vector<float> row_weights = sent.row_weights;
  DeviceValues x = to_device(sent.x), y(buffer_rows * d_model);
  const ExpertTensors w1(make_w1(), stream), w2(make_w2(), stream);

  const ExpertWeights up{bf16, experts, d_model, d_ff, WeightOrder::n_by_k, d_model, w1.view};
  const ExpertWeights down{bf16, experts, d_ff, d_model, WeightOrder::k_by_n, d_model, w2.view};
  const ExpertMlp mlp{MlpKind::linear2, {ActivationFunction::relu}, up, down};

  thrust::device_vector<char> row_memory(expert_rows_bytes(experts, buffer_rows));
  const ExpertRows rows = prepare_expert_rows(pointer(row_begin), pointer(row_count), experts, buffer_rows,
                                              pointer(row_memory), row_memory.size(), stream);
  const ExpertMlpRows batch{rows, pointer(row_weights), {pointer(x), d_model}};
  const ExpertMlpOptions options;
  thrust::device_vector<char> workspace(
      expert_mlp_rows_forward_workspace_bytes(mlp, rows, options, /*saves=*/false));
  expert_mlp_rows_forward(mlp, batch, {pointer(y), d_model}, options, /*saved=*/{},
                          {pointer(workspace), workspace.size()}, stream);
  return check(returned(sent, to_host(y)));
}

}  // namespace

int main() {
  return gpu_exit_code([] { return run(nullptr); });
}
