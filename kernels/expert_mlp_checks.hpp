// The argument checks of the expert layer: everything that the host can know, before anything is launched. No
// CUDA in it, so the host tests reach every refusal. The products check their own operands besides
// (product_checks.hpp).
#pragma once
#include <cmath>
#include <string>

#include "dropless/expert_mlp.hpp"
#include "operand_spans.hpp"
#include "product_checks.hpp"

namespace dropless::expert_mlp_checks {

inline bool is_given(const ExpertGradients& gradients) {
  return gradients.data != nullptr || gradients.matrices != nullptr;
}

inline void check_mlp(const ExpertMlp& mlp) {
  require(mlp.kind == MlpKind::linear2 || mlp.kind == MlpKind::glu, "mlp.kind",
          std::to_string(static_cast<int>(mlp.kind)), "linear2 or glu");
  check_activation(mlp.activation, mlp.kind);
  const ExpertWeights &up = mlp.up, &down = mlp.down;
  require(up.type != ElementType::fp32, "mlp.up.type", element_name(up.type), "bf16 or fp16");
  require_type(down.type, up.type, "mlp.down.type");
  require_between(up.experts, 1, 4096, "mlp.up.experts");
  require(down.experts == up.experts, "mlp.down.experts", std::to_string(down.experts),
          std::to_string(up.experts) + ", as mlp.up has");
  require_between(up.k, 1, int32_max, "mlp.up.k");
  require_between(down.k, 1, int32_max / 2, "mlp.down.k");
  require(up.n == up_columns(mlp.kind, down.k), "mlp.up.n", std::to_string(up.n),
          std::to_string(up_columns(mlp.kind, down.k)) + ", the up columns of d_ff = mlp.down.k");
  require(down.n == up.k, "mlp.down.n", std::to_string(down.n),
          std::to_string(up.k) + ", d_model = mlp.up.k");
  require(mlp.kind == MlpKind::glu || !has_second(up), "mlp.up.second", "given", "none in linear2");
  require(!has_second(down), "mlp.down.second", "given", "none: d_ff of down is one tensor");
  require((up.widths.d_ff == nullptr) == (down.widths.d_ff == nullptr), "mlp.down.widths.d_ff",
          down.widths.d_ff == nullptr ? "null" : "given", "widths in both up and down, or in neither");
}

inline void check_options(const ExpertMlpOptions& options) {
  require_between(static_cast<int>(options.weight_place), 0, 2, "options.weight_place");
  require_between(static_cast<int>(options.path), 0, 2, "options.path");
  require(std::isfinite(options.output_scale), "options.output_scale", std::to_string(options.output_scale),
          "a finite number");
  require_at_least(options.sm_limit, 0, "options.sm_limit");
}

/// Routing weights are there exactly where they have a place; where no assignment is, they need no memory.
inline void check_weights(const std::string& name, const float* weights, RoutingWeightPlace place,
                          bool nonempty) {
  if (place == RoutingWeightPlace::none)
    require(weights == nullptr, name, "given", "null, as options.weight_place is none");
  else
    require(weights != nullptr || !nonempty, name, "null", "device memory");
}

/// The operands of one call.
class Operands : public OperandSpans {
 public:
  template <class View>
  static MatrixSpan rows(const std::string& name, const View& view, std::int64_t rows, std::int64_t columns,
                         ElementType type) {
    require_type(view.type, type, name + ".type");
    return matrix_span(name, view.data, rows, columns, view.leading_dimension, element_bytes(type));
  }
  void reads_memory(const std::string& name, const DeviceMemory& memory) {
    reads_array(name, memory.data, static_cast<std::int64_t>(memory.bytes), 1);
  }
  void writes_memory(const std::string& name, const DeviceMemory& memory) {
    writes_array(name, memory.data, static_cast<std::int64_t>(memory.bytes), 1);
  }
  void reads_mlp(const ExpertMlp& mlp) {
    reads_weights("mlp.up", mlp.up, 1);
    reads_weights("mlp.down", mlp.down, 0);
    const std::int64_t bytes = element_bytes(mlp.up.type);
    reads_array("mlp.up_bias", mlp.up_bias, mlp.up.experts * mlp.up.n, bytes);
    reads_array("mlp.down_bias", mlp.down_bias, mlp.down.experts * mlp.down.n, bytes);
  }
  void writes_gradients(const std::string& name, const ExpertGradients& gradients, std::int64_t experts,
                        std::int64_t m, std::int64_t n) {
    if (!is_given(gradients)) return;
    require(gradients.experts == experts, name + ".experts", std::to_string(gradients.experts),
            std::to_string(experts));
    require(gradients.m == m, name + ".m", std::to_string(gradients.m), std::to_string(m));
    require(gradients.n == n, name + ".n", std::to_string(gradients.n), std::to_string(n));
    if (gradients.matrices != nullptr) return;
    const std::int64_t bytes = element_bytes(gradients.type);
    const MatrixSpan one = matrix_span(name, gradients.data, m, n, gradients.leading_dimension, bytes);
    const std::int64_t stride = experts > 1 ? gradients.expert_stride : 0;
    require_at_least(stride, experts > 1 ? (m - 1) * gradients.leading_dimension + n : 0,
                     name + ".expert_stride");
    writes(name, repeated(one, experts, checked_product(stride, bytes, name.c_str()), name));
  }

 private:
  /// `halved`: the dimension that two tensors share, 0 for k and 1 for n.
  void reads_weights(const std::string& name, const ExpertWeights& weights, int halved) {
    std::int64_t k = weights.k, n = weights.n;
    if (has_second(weights)) (halved == 0 ? k : n) /= 2;
    const bool k_by_n = weights.order == WeightOrder::k_by_n;
    const std::int64_t outer = k_by_n ? k : n, inner = k_by_n ? n : k;
    reads(name + ".first",
          product_checks::tensor_span(name + ".first", weights, weights.first, outer, inner));
    if (has_second(weights))
      reads(name + ".second",
            product_checks::tensor_span(name + ".second", weights, weights.second, outer, inner));
  }
};

/// Returns the assignments of the bounds.
inline std::int64_t check_bounds(const ExpertMlp& mlp, const TopologyBounds& bounds) {
  require(bounds.experts == mlp.up.experts, "bounds.experts", std::to_string(bounds.experts),
          std::to_string(mlp.up.experts) + ", as mlp.up has");
  require_at_least(bounds.tokens, 0, "bounds.tokens");
  require_between(bounds.top_k, 1, 128, "bounds.top_k");
  const std::int64_t assignments = checked_product(bounds.tokens, bounds.top_k, "bounds.tokens * top_k");
  return checked_int32(assignments, "bounds.tokens * top_k");
}

/// What both calls of the layer from tokens check and read.
inline Operands check_batch(const ExpertMlp& mlp, const ExpertMlpBatch& batch,
                            const ExpertMlpOptions& options) {
  check_mlp(mlp);
  check_options(options);
  const TopologyBounds& bounds = batch.bounds;
  const std::int64_t assignments = check_bounds(mlp, bounds);
  check_weights("batch.routing_weights", batch.routing_weights, options.weight_place, assignments > 0);
  Operands operands;
  operands.reads_mlp(mlp);
  operands.reads_array("batch.ids.data", batch.ids.data, assignments, batch.ids.is_int64 ? 8 : 4);
  operands.reads_array("batch.ids.expert_map", batch.ids.expert_map, batch.ids.global_experts, 4);
  operands.reads_array("batch.routing_weights", batch.routing_weights, assignments, 4);
  operands.reads("batch.x", operands.rows("batch.x", batch.x, bounds.tokens, mlp.up.k, mlp.up.type));
  return operands;
}

/// What both calls of the layer from rows check and read.
inline Operands check_batch(const ExpertMlp& mlp, const ExpertMlpRows& batch,
                            const ExpertMlpOptions& options) {
  check_mlp(mlp);
  check_options(options);
  const ExpertRows& rows = batch.rows;
  product_checks::check_rows(rows, true);
  require(rows.experts == mlp.up.experts, "rows.experts", std::to_string(rows.experts),
          std::to_string(mlp.up.experts) + ", as mlp.up has");
  check_weights("rows.row_weights", batch.row_weights, options.weight_place, rows.rows_bound > 0);
  Operands operands;
  operands.reads_mlp(mlp);
  operands.reads_array("rows.row_begin", rows.row_begin, rows.experts, 4);
  operands.reads_array("rows.row_count", rows.row_count, rows.experts, 4);
  operands.reads_array("rows.tiles", rows.tiles, 4 * rows.tile_bound, 4);
  operands.reads_array("rows.tile_count", rows.tile_count, 1, 4);
  operands.reads_array("rows.row_weights", batch.row_weights, rows.rows_bound, 4);
  operands.reads("rows.x", operands.rows("rows.x", batch.x, rows.rows_bound, mlp.up.k, mlp.up.type));
  return operands;
}

/// Adds what backward writes. `rows` and `weights`: the rows of gradients.x, and the routing weights.
inline void check_gradients(Operands& operands, const ExpertMlp& mlp, const ExpertMlpGradients& gradients,
                            const ExpertMlpOptions& options, std::int64_t rows, std::int64_t weights) {
  const std::int64_t experts = mlp.up.experts;
  if (gradients.x.data != nullptr)
    operands.writes("gradients.x", operands.rows("gradients.x", gradients.x, rows, mlp.up.k, mlp.up.type));
  const bool two = has_second(mlp.up);
  require(two || !is_given(gradients.up_second), "gradients.up_second", "given",
          "none, as mlp.up is one tensor");
  const std::int64_t up_n = two ? mlp.up.n / 2 : mlp.up.n;
  operands.writes_gradients("gradients.up", gradients.up, experts, mlp.up.k, up_n);
  operands.writes_gradients("gradients.up_second", gradients.up_second, experts, mlp.up.k, up_n);
  operands.writes_gradients("gradients.down", gradients.down, experts, mlp.down.k, mlp.down.n);
  operands.writes_array("gradients.up_bias", gradients.up_bias, experts * mlp.up.n, 4);
  operands.writes_array("gradients.down_bias", gradients.down_bias, experts * mlp.down.n, 4);
  require(gradients.routing_weights == nullptr || options.weight_place != RoutingWeightPlace::none,
          "gradients.routing_weights", "given", "null, as options.weight_place is none");
  operands.writes_array("gradients.routing_weights", gradients.routing_weights, weights, 4);
}

}  // namespace dropless::expert_mlp_checks
