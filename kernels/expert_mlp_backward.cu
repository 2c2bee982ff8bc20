// Backward of the expert layer in rows. One [rows, d_model] matrix holds in turn the gradient of y, the
// gradient of x by row, and x by row; dh and dp are the only others. With factor = output_scale * the weight
// on the output, and d_h taken for factor 1:
//
//   d_h = dy W_down^T                         weight: output_scale * (d_h . h + dy . down_bias)
//   d_p = factor * d_h * activation'(p)       d_W_down = (factor * h)^T dy     d_down_bias = sum factor * dy
//   d_x = d_p W_up^T                          d_W_up = x^T d_p                 d_up_bias = sum d_p
//
// so that y is neither kept nor computed again. A weight on the input scales x's rows: d_x and x in d_W_up
// get it as a factor, and its own gradient is x . (d_p W_up^T), which holds where the weight is zero too.
#include "dropless/permutation.hpp"
#include "expert_mlp_checks.hpp"
#include "expert_mlp_layer.hpp"

namespace dropless {
namespace {

/// Columns from `first` on.
RowsView columns_from(const MutableRowsView& view, std::int64_t first) {
  return {static_cast<const char*>(view.data) + first * element_bytes(view.type), view.leading_dimension,
          view.type};
}

}  // namespace

BackwardPass::BackwardPass(const Layer& layer, const RowsView& out_gradient,
                           const ExpertMlpGradients& gradients, const RowsView& p,
                           const LayerScratch& scratch)
    : layer_(layer), out_gradient_(out_gradient), p_(p), gradients_(gradients) {
  using expert_mlp_checks::is_given;
  weighs_input_ = layer.weights_on(RoutingWeightPlace::input);
  wants_weights_ = gradients.routing_weights != nullptr;
  wants_up_ = is_given(gradients.up) || is_given(gradients.up_second);
  needs_x_rows_gradient_ = gradients.x.data != nullptr || (weighs_input_ && wants_weights_);
  needs_h_ = needs_x_rows_gradient_ || wants_up_ || wants_weights_ || gradients.up_bias != nullptr ||
             is_given(gradients.down);
  rows_ = layer.scratch_rows(scratch.rows, layer.d_model());
  h_ = layer.scratch_rows(scratch.hidden, layer.d_ff());
  p_gradient_ = layer.scratch_rows(scratch.hidden_gradient, layer.mlp.up.n);
  y_gradient_ = layer.from_tokens() ? read_only(rows_) : out_gradient;
  x_rows_gradient_ = !layer.from_tokens() && gradients.x.data != nullptr ? gradients.x : rows_;

  const ExpertMlp& mlp = layer.mlp;
  const bool accumulates = layer.options.accumulate;
  if (needs_h_) h_gradient_.emplace(PlannedProduct::Verb::sdd, y_gradient_, transposed(mlp.down), h_);
  if (is_given(gradients.down))
    down_gradient_.emplace(read_only(h_), y_gradient_, gradients.down, accumulates);
  if (needs_x_rows_gradient_)
    x_gradient_.emplace(PlannedProduct::Verb::dsd, read_only(p_gradient_), transposed(mlp.up),
                        x_rows_gradient_);
  const RowsView x_rows = layer.from_tokens() || weighs_input_ ? read_only(rows_) : layer.x;
  if (is_given(gradients.up)) up_gradient_.emplace(x_rows, read_only(p_gradient_), gradients.up, accumulates);
  if (is_given(gradients.up_second))
    up_second_gradient_.emplace(x_rows, columns_from(p_gradient_, mlp.up.n / 2), gradients.up_second,
                                accumulates);
  for (const auto* product :
       {&h_gradient_, &down_gradient_, &x_gradient_, &up_gradient_, &up_second_gradient_})
    if (*product) (*product)->check(layer.rows.rows, layer.options.path);
}

void BackwardPass::run(const std::optional<PlannedProduct>& product) const {
  if (product) product->run(layer_.rows.rows, layer_.options.sm_limit, layer_.options.path, layer_.stream);
}

void BackwardPass::run_down() const {
  const Layer& layer = layer_;
  const ExpertMlp& mlp = layer.mlp;
  const RowFactors factors{layer.output_weights(), layer.options.output_scale};
  if (layer.has_rows()) {
    if (layer.from_tokens()) gather(layer.rows.order, out_gradient_, rows_, layer.d_model(), layer.stream);
    run(h_gradient_);
    if (needs_h_) {
      ActivationBackward backward{p_, factors, h_, p_gradient_};
      if (!weighs_input_) backward.weights_gradient = gradients_.routing_weights;
      backward.out_gradient = y_gradient_;
      backward.down_bias = mlp.down_bias;
      backward.d_model = layer.d_model();
      activate_backward(layer.rows, layer.activation(nullptr), backward, layer.stream);
    }
  }
  run(down_gradient_);
  if (gradients_.down_bias != nullptr)
    sum_columns(layer.rows, y_gradient_, layer.d_model(), factors, gradients_.down_bias,
                layer.options.accumulate, layer.stream);
}

void BackwardPass::run_up() const {
  const Layer& layer = layer_;
  const ExpertMlp& mlp = layer.mlp;
  const std::int64_t d_model = layer.d_model();
  if (gradients_.up_bias != nullptr)
    sum_columns(layer.rows, read_only(p_gradient_), mlp.up.n, {}, gradients_.up_bias,
                layer.options.accumulate, layer.stream);
  if (layer.has_rows()) {
    run(x_gradient_);
    if (layer.from_tokens() && gradients_.x.data != nullptr)
      combine(layer.rows.order, read_only(x_rows_gradient_), layer.input_weights(), gradients_.x, d_model,
              false, layer.stream);
    if (weighs_input_ && (wants_up_ || wants_weights_))
      weigh_input(layer.rows, layer.x, layer.weights, read_only(x_rows_gradient_), rows_,
                  gradients_.routing_weights, d_model, layer.stream);
    else if (layer.from_tokens() && wants_up_)
      gather(layer.rows.order, layer.x, rows_, d_model, layer.stream);
    if (weighs_input_ && !layer.from_tokens() && gradients_.x.data != nullptr)
      finish_rows(layer.rows, read_only(gradients_.x), gradients_.x, d_model, nullptr, {layer.weights, 1},
                  false, layer.stream);
    if (wants_up_ && has_second(mlp.up) && mlp.up.widths.d_ff != nullptr)
      spread_halves(layer.rows, mlp.up.widths.d_ff, p_gradient_, mlp.up.n, layer.stream);
  }
  run(up_gradient_);
  run(up_second_gradient_);
}

void BackwardPass::run() const {
  run_down();
  run_up();
}

}  // namespace dropless
