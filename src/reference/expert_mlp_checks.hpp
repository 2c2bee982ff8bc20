// What the CPU expert layer refuses: operands that do not fit together, are not there or overlap.
#pragma once
#include <string>

#include "dropless/expert_mlp_reference.hpp"
#include "expert_weights.hpp"
#include "operand_spans.hpp"
#include "row_matrix.hpp"

namespace dropless {

template <class T>
void check_mlp(const HostExpertMlp<T>& mlp) {
  check_activation(mlp.activation, mlp.kind);
  require_equal(mlp.down.experts, mlp.up.experts, "mlp.down.experts");
  require_equal(mlp.down.n, mlp.up.k, "mlp.down.n");
  require_equal(mlp.up.n, up_columns(mlp.kind, mlp.down.k), "mlp.up.n");
  require_equal(static_cast<std::int64_t>(mlp.down.d_ff.size()),
                static_cast<std::int64_t>(mlp.up.d_ff.size()), "the number of widths in mlp.down.d_ff");
  for (std::size_t e = 0; e < mlp.up.d_ff.size(); ++e)
    require_equal(mlp.up.d_ff[e], up_columns(mlp.kind, mlp.down.d_ff[e]),
                  "mlp.up.d_ff of expert " + std::to_string(e));
}

/// `count`: how many there must be.
template <class T>
void check_routing_weights(const T* weights, std::int64_t count, const ExpertMlpOptions& options,
                           const std::string& name) {
  const bool weighted = options.weight_place != RoutingWeightPlace::none;
  require(weighted || weights == nullptr, name, "given", "null, as weight_place is none");
  require_memory(weights, weighted && count > 0, sizeof(T), name, host_memory);
}

/// The parameters of the layer, which each of its calls reads.
template <class T>
OperandSpans checked_parameters(const HostExpertMlp<T>& mlp) {
  check_mlp(mlp);
  OperandSpans operands;
  for (const MatrixSpan& span : checked_weights(mlp.up, NarrowedDimension::n, "mlp.up"))
    operands.reads("mlp.up", span);
  for (const MatrixSpan& span : checked_weights(mlp.down, NarrowedDimension::k, "mlp.down"))
    operands.reads("mlp.down", span);
  operands.reads_array("mlp.up_bias", mlp.up_bias, mlp.up.experts * mlp.up.n, sizeof(T));
  operands.reads_array("mlp.down_bias", mlp.down_bias, mlp.down.experts * mlp.down.n, sizeof(T));
  return operands;
}

/// What both calls of the layer from rows check and read.
template <class T>
OperandSpans checked_batch(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                           const ExpertMlpOptions& options) {
  OperandSpans operands = checked_parameters(mlp);
  check_rows(batch.rows, mlp.up.experts);
  const std::int64_t bound = rows_bound(batch.rows);
  check_routing_weights(batch.row_weights, bound, options, "rows.row_weights");
  operands.reads_array("rows.row_weights", batch.row_weights, bound, sizeof(T));
  operands.reads("rows.x", rows_span("rows.x", batch.x, bound, mlp.up.k));
  return operands;
}

/// What both calls of the layer from tokens check and read.
template <class T>
OperandSpans checked_batch(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
                           const ExpertMlpOptions& options) {
  OperandSpans operands = checked_parameters(mlp);
  require_at_least(batch.tokens, 0, "batch.tokens");
  require_at_least(batch.top_k, 1, "batch.top_k");
  const std::int64_t assignments = checked_product(batch.tokens, batch.top_k, "batch.tokens * top_k");
  require_equal(static_cast<std::int64_t>(batch.ids.size()), assignments, "the number of ids");
  check_routing_weights(batch.routing_weights, assignments, options, "batch.routing_weights");
  operands.reads_array("batch.routing_weights", batch.routing_weights, assignments, sizeof(T));
  operands.reads("batch.x", rows_span("batch.x", batch.x, batch.tokens, mlp.up.k));
  return operands;
}

template <class T>
void add_gradient(OperandSpans& operands, const HostExpertGradients<T>& gradient, std::int64_t experts,
                  std::int64_t m, std::int64_t n, const std::string& name) {
  if (gradient.data == nullptr) return;
  require_equal(gradient.experts, experts, name + ".experts");
  require_equal(gradient.m, m, name + ".m");
  require_equal(gradient.n, n, name + ".n");
  operands.writes(name, gradient_span(name, gradient));
}

/// Adds what backward writes. `rows` and `weights`: the rows of gradients.x, and the routing weights.
template <class T>
void add_gradients(OperandSpans& operands, const HostExpertMlp<T>& mlp,
                   const HostExpertMlpGradients<T>& gradients, const ExpertMlpOptions& options,
                   std::int64_t rows, std::int64_t weights) {
  const std::int64_t experts = mlp.up.experts, d_model = mlp.up.k;
  const bool second = has_second(mlp.up);
  require(second || gradients.up_second.data == nullptr, "gradients.up_second", "given",
          "null, as mlp.up is one tensor");
  require(gradients.routing_weights == nullptr || options.weight_place != RoutingWeightPlace::none,
          "gradients.routing_weights", "given", "null, as weight_place is none");
  if (gradients.x.data != nullptr)
    operands.writes("gradients.x", rows_span("gradients.x", gradients.x, rows, d_model));
  add_gradient(operands, gradients.up, experts, d_model, second ? mlp.up.n / 2 : mlp.up.n, "gradients.up");
  add_gradient(operands, gradients.up_second, experts, d_model, mlp.up.n / 2, "gradients.up_second");
  add_gradient(operands, gradients.down, experts, mlp.down.k, d_model, "gradients.down");
  operands.writes_array("gradients.up_bias", gradients.up_bias, experts * mlp.up.n, sizeof(T));
  operands.writes_array("gradients.down_bias", gradients.down_bias, experts * d_model, sizeof(T));
  operands.writes_array("gradients.routing_weights", gradients.routing_weights, weights, sizeof(T));
}

}  // namespace dropless
