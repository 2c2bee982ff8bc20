// One call of the expert layer in terms of rows, whichever entry it came through: from tokens (gather and
// combine around it) or from rows that are in expert order already.
#pragma once
#include <optional>

#include "device_properties.hpp"
#include "dropless/expert_mlp.hpp"
#include "expert_mlp_memory.hpp"
#include "expert_mlp_steps.hpp"
#include "fused_up.hpp"
#include "planned_product.hpp"

namespace dropless {

struct Layer {
  const ExpertMlp& mlp;
  const ExpertMlpOptions& options;
  LayerRows rows;
  const float* weights;  ///< routing weights by assignment; null: ones
  RowsView x;            ///< [tokens, d_model], or by row
  Stream stream;

  bool from_tokens() const { return rows.row_to_assignment != nullptr; }
  bool has_rows() const { return rows.rows.rows_bound > 0; }
  ElementType type() const { return mlp.up.type; }
  std::int64_t d_model() const { return mlp.up.k; }
  std::int64_t d_ff() const { return mlp.down.k; }

  bool weights_on(RoutingWeightPlace place) const { return options.weight_place == place; }
  const float* input_weights() const { return weights_on(RoutingWeightPlace::input) ? weights : nullptr; }
  const float* output_weights() const { return weights_on(RoutingWeightPlace::output) ? weights : nullptr; }
  LayerActivation activation(const void* bias) const {
    return {mlp.kind, mlp.activation, mlp.up.n, mlp.up.widths.d_ff, bias};
  }
  MutableRowsView scratch_rows(void* data, std::int64_t columns) const {
    return {data, scratch_pitch(columns), type()};
  }
  /// p as it is saved.
  MutableRowsView pre_activation(void* data) const { return {data, mlp.up.n, type()}; }
};

inline RowsView read_only(const MutableRowsView& view) {
  return {view.data, view.leading_dimension, view.type};
}

/// Whether the layer's fused Hopper kernels may run.
inline bool may_fuse(const Layer& layer) {
  return !layer.options.composed && layer.options.path != KernelPath::portable &&
         current_device_properties().compute_capability == 90;
}

/// Whether rows need another pass after the down product where there is no combine to scale them.
inline bool down_needs_finish(const ExpertMlp& mlp, const ExpertMlpOptions& options) {
  return mlp.down_bias != nullptr || options.weight_place == RoutingWeightPlace::output ||
         options.output_scale != 1;
}

/// Forward, planned and checked by the constructor, launched by run(). What finds the rows goes on the stream
/// between the two.
class ForwardPass {
 public:
  /// out: by token or by row. saved_p: where p is kept for backward if it `saves`.
  ForwardPass(const Layer& layer, const MutableRowsView& out, bool saves, void* saved_p,
              const LayerScratch& scratch);
  void run() const;

 private:
  void run_up() const;

  const Layer& layer_;
  bool saves_, finishes_rows_;
  MutableRowsView out_, x_rows_, p_, h_, y_;
  std::optional<FusedUp> fused_up_;  // where one kernel takes product and activation
  std::optional<PlannedProduct> up_, down_;
};

/// Backward, likewise.
class BackwardPass {
 public:
  /// out_gradient and gradients.x: by token or by row. p: what forward saved.
  BackwardPass(const Layer& layer, const RowsView& out_gradient, const ExpertMlpGradients& gradients,
               const RowsView& p, const LayerScratch& scratch);
  void run() const;

 private:
  void run_down() const;
  void run_up() const;
  void run(const std::optional<PlannedProduct>& product) const;

  const Layer& layer_;
  RowsView out_gradient_, p_;
  ExpertMlpGradients gradients_;
  bool weighs_input_, wants_up_, wants_weights_, needs_x_rows_gradient_, needs_h_;
  MutableRowsView rows_, h_, p_gradient_, x_rows_gradient_;
  RowsView y_gradient_;
  std::optional<PlannedProduct> h_gradient_, down_gradient_, x_gradient_, up_gradient_, up_second_gradient_;
};

}  // namespace dropless
