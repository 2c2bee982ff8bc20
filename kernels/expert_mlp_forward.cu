// Forward of the expert layer in rows: up product, activation, down product, and the way back to tokens.
#include "expert_mlp_layer.hpp"
#include "scaled_combine.hpp"

namespace dropless {
namespace {

/// The fused up product of this layer, if it pays and the Hopper kernel may and can run it. x_rows: the
/// gathered rows, for a product that does not gather.
std::optional<FusedUp> plan_fused_up(const Layer& layer, const RowsView& x_rows,
                                     const MutableRowsView& kept_p, const MutableRowsView& h) {
  const ExpertRows& rows = layer.rows.rows;
  const UpFusion fusion = up_fusion(rows.rows_bound, rows.experts, layer.d_model(), layer.rows.order.top_k);
  const bool gathers = fusion == UpFusion::gathering && layer.from_tokens();
  const FusedUp fused{rows,
                      gathers || !layer.from_tokens() ? layer.x : x_rows,
                      gathers,
                      layer.rows.order.tokens,
                      static_cast<std::int32_t>(layer.rows.order.top_k),
                      layer.rows.row_to_assignment,
                      layer.input_weights(),
                      layer.mlp.up,
                      layer.mlp.up_bias,
                      layer.mlp.kind,
                      layer.mlp.activation,
                      kept_p,
                      h,
                      multiprocessors_within(layer.options.sm_limit)};
  return fusion != UpFusion::none && may_fuse(layer) && sm90_can_run(fused) ? std::optional(fused)
                                                                            : std::nullopt;
}

}  // namespace

ForwardPass::ForwardPass(const Layer& layer, const MutableRowsView& out, bool saves, void* saved_p,
                         const LayerScratch& scratch)
    : layer_(layer), saves_(saves), out_(out) {
  const ExpertMlp& mlp = layer.mlp;
  const bool from_tokens = layer.from_tokens(), accumulates = layer.options.accumulate;
  x_rows_ = layer.scratch_rows(scratch.rows, layer.d_model());
  p_ = saves ? layer.pre_activation(saved_p) : layer.scratch_rows(scratch.hidden, mlp.up.n);
  h_ = saves ? layer.scratch_rows(scratch.hidden, layer.d_ff()) : p_;
  // From rows, y goes where it belongs at once, unless a second pass must add to what is there.
  finishes_rows_ = from_tokens ? mlp.down_bias != nullptr : down_needs_finish(mlp, layer.options);
  y_ = from_tokens || (finishes_rows_ && accumulates) ? x_rows_ : out;
  fused_up_ = plan_fused_up(layer, read_only(x_rows_), saves ? p_ : MutableRowsView{}, h_);
  up_.emplace(PlannedProduct::Verb::sdd, from_tokens ? read_only(x_rows_) : layer.x, mlp.up, p_);
  down_.emplace(PlannedProduct::Verb::dsd, read_only(h_), mlp.down, y_,
                !from_tokens && !finishes_rows_ && accumulates);
  up_->check(layer.rows.rows, layer.options.path);
  down_->check(layer.rows.rows, layer.options.path);
}

void ForwardPass::run_up() const {
  const bool gathers_first = layer_.from_tokens() && !(fused_up_ && fused_up_->gathers);
  if (gathers_first) gather(layer_.rows.order, layer_.x, x_rows_, layer_.d_model(), layer_.stream);
  if (fused_up_) return launch_sm90(*fused_up_, layer_.stream);
  const ExpertMlp& mlp = layer_.mlp;
  up_->run(layer_.rows.rows, layer_.options.sm_limit, layer_.options.path, layer_.stream);
  activate(layer_.rows, layer_.activation(mlp.up_bias), layer_.input_weights(), p_, saves_, h_,
           layer_.stream);
}

void ForwardPass::run() const {
  const Layer& layer = layer_;
  const float scale = layer.options.output_scale;
  if (layer.has_rows()) {
    run_up();
    down_->run(layer.rows.rows, layer.options.sm_limit, layer.options.path, layer.stream);
    const void* const bias = layer.mlp.down_bias;
    if (finishes_rows_ && layer.from_tokens())
      finish_rows(layer.rows, read_only(y_), y_, layer.d_model(), bias, {}, false, layer.stream);
    else if (finishes_rows_)
      finish_rows(layer.rows, read_only(y_), out_, layer.d_model(), bias, {layer.output_weights(), scale},
                  layer.options.accumulate, layer.stream);
  }
  if (layer.from_tokens())
    combine_scaled(layer.rows.order, read_only(y_), layer.output_weights(), scale, out_, layer.d_model(),
                   layer.options.accumulate, layer.stream);
}

}  // namespace dropless
