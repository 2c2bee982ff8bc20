// Calls the products, the permutations and the layer's own steps as the layer does.
#include "layer_steps.hpp"

#include "device_fill.hpp"
#include "device_properties.hpp"
#include "dropless/permutation.hpp"
#include "expert_mlp_steps.hpp"
#include "fused_up.hpp"

namespace dropless::benchmark {
namespace {

DeviceMemory random_rows(std::int64_t rows, std::int64_t columns, ElementType type, Stream stream) {
  DeviceMemory memory(static_cast<std::size_t>(rows * columns * element_bytes(type)));
  fill_random(memory.data(), rows * columns, type, 5, 1.0f, stream);
  return memory;
}

}  // namespace

LayerSteps::LayerSteps(const BenchmarkCase& of, const LayerOperands& operands, bool backward, Stream stream)
    : operands_(operands),
      backward_(backward),
      stream_(stream),
      owned_topology_({of.tokens, of.top_k, of.experts, {}}, router_ids(of)),
      topology_(owned_topology_.build(stream)),
      rows_(random_rows(of.rows(), of.d_model, operands.mlp().up.type, stream)),
      hidden_(random_rows(of.rows(), of.d_ff, operands.mlp().up.type, stream)),
      up_rows_(random_rows(of.rows(), operands.mlp().up.n, operands.mlp().up.type, stream)),
      up_rows_gradient_(
          random_rows(backward ? of.rows() : 0, operands.mlp().up.n, operands.mlp().up.type, stream)) {}

std::vector<Contestant> LayerSteps::calls() const {
  const ExpertMlp& mlp = operands_.mlp();
  const ElementType type = mlp.up.type;
  const std::int64_t d_model = mlp.up.k, d_ff = mlp.down.k, up_n = mlp.up.n;
  const MutableRowsView rows{rows_.data(), d_model, type}, h{hidden_.data(), d_ff, type},
      p{up_rows_.data(), up_n, type}, p_gradient{up_rows_gradient_.data(), up_n, type};
  const auto read = [](const MutableRowsView& view) {
    return RowsView{view.data, view.leading_dimension, view.type};
  };
  const RowsView rows_read = read(rows), h_read = read(h), p_gradient_read = read(p_gradient);
  const ExpertRows expert_rows = topology_.expert_rows();
  const RowOrder order = topology_.row_order();
  const LayerRows layer_rows{expert_rows, order, topology_.row_to_assignment};
  const LayerActivation activation{mlp.kind, mlp.activation, up_n, nullptr, nullptr};
  const ExpertMlpBatch& batch = operands_.batch();
  const ExpertMlpGradients gradients = operands_.gradients();
  const MutableRowsView out = operands_.out_view();
  const RowsView out_gradient = operands_.out_gradient();
  const Stream stream = stream_;

  std::vector<Contestant> calls{
      {"topology", [this, stream](std::int64_t) { owned_topology_.build(stream); }},
      {"gather", [=](std::int64_t) { gather(order, batch.x, rows, d_model, stream); }},
      {"up", [=](std::int64_t) { sdd(expert_rows, rows_read, mlp.up, p, {}, stream); }},
      {"activation", [=](std::int64_t) { activate(layer_rows, activation, nullptr, p, true, h, stream); }},
      {"down", [=](std::int64_t) { dsd(expert_rows, h_read, mlp.down, rows, {}, stream); }},
      {"combine",
       [=](std::int64_t) { combine(order, rows_read, batch.routing_weights, out, d_model, false, stream); }}};
  const UpFusion fusion = up_fusion(expert_rows.rows_bound, expert_rows.experts, d_model, order.top_k);
  const bool gathers = fusion == UpFusion::gathering;
  const FusedUp fused{expert_rows,
                      gathers ? batch.x : rows_read,
                      gathers,
                      order.tokens,
                      static_cast<std::int32_t>(order.top_k),
                      topology_.row_to_assignment,
                      nullptr,
                      mlp.up,
                      nullptr,
                      mlp.kind,
                      mlp.activation,
                      {},
                      h,
                      current_device_properties().multiprocessors};
  if (fusion != UpFusion::none && current_device_properties().compute_capability == 90 && sm90_can_run(fused))
    calls.insert(calls.begin() + 4, {gathers ? "fused gather, up and activation" : "fused up and activation",
                                     [=](std::int64_t) { launch_sm90(fused, stream); }});
  if (!backward_) return calls;
  ActivationBackward backward;
  backward.p = read(p);
  backward.factors.weights = batch.routing_weights;
  backward.h = h;
  backward.p_gradient = p_gradient;
  backward.weights_gradient = gradients.routing_weights;
  const std::vector<Contestant> of_backward{
      {"gather of out's gradient", [=](std::int64_t) { gather(order, out_gradient, rows, d_model, stream); }},
      {"h's gradient",
       [=](std::int64_t) { sdd(expert_rows, rows_read, transposed(mlp.down), h, {}, stream); }},
      {"activation backward",
       [=](std::int64_t) { activate_backward(layer_rows, activation, backward, stream); }},
      {"down's gradient",
       [=](std::int64_t) { weight_gradient(expert_rows, h_read, rows_read, gradients.down, {}, stream); }},
      {"x's gradient by row",
       [=](std::int64_t) { dsd(expert_rows, p_gradient_read, transposed(mlp.up), rows, {}, stream); }},
      {"combine of x's gradient",
       [=](std::int64_t) { combine(order, rows_read, nullptr, gradients.x, d_model, false, stream); }},
      {"gather of x", [=](std::int64_t) { gather(order, batch.x, rows, d_model, stream); }},
      {"up's gradient", [=](std::int64_t) {
         weight_gradient(expert_rows, rows_read, p_gradient_read, gradients.up, {}, stream);
       }}};
  calls.insert(calls.end(), of_backward.begin(), of_backward.end());
  return calls;
}

}  // namespace dropless::benchmark
