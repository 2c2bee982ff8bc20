// The sums over batches turned into the figures of a report: ratios, means, percentiles, FLOPs and bytes.
#include <algorithm>

#include "dropless/cost.hpp"
#include "ratio.hpp"
#include "report/layer_sums.hpp"

namespace dropless {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// The imbalance of the rows summed over batches, as if they were one batch.
Imbalance summed_imbalance(const std::vector<std::int64_t>& rows_per_expert) {
  const BatchRows rows(rows_per_expert, 0, 0);
  if (rows.rows() == 0) return {};
  RowHistogram histogram;
  return imbalance(rows, GiniCounter()(rows, 1, histogram));
}

}  // namespace

PolicyFigures LayerSums::policy_figures(const ReportPlan& plan, std::size_t policy) const {
  const PolicySums& sums = policies_[policy];
  PolicyFigures out;
  out.scheduled_rows = sums.scheduled;
  out.launched_rows = sums.launched;
  out.kept_rows = sums.kept;
  out.dropped_rows = sums.dropped;
  out.added_rows = sums.added;
  out.padding_fraction = padding_fraction(sums.scheduled, sums.kept, sums.added);
  out.padding_p50 = padding_.percentile(policy, 0.50);
  out.padding_p95 = padding_.percentile(policy, 0.95);
  out.padding_p99 = padding_.percentile(policy, 0.99);
  out.padding_max = padding_.largest(policy);
  if (sums.metadata_known && batches_with_rows_ > 0) out.metadata_bytes = sums.metadata;
  if (times_) out.time = times_->figures(policy, batches_with_rows_);
  if (plan.model) {
    // FLOPs and bytes in doubles: a long trace of a large model passes 2^63 FLOPs.
    const ModelShape& model = *plan.model;
    const double flops_a_row = as_double(mlp_flops(model.mlp, 1, model.d_model, model.d_ff));
    const ProductCost up = up_product_cost(model.mlp, 1, 0, model.d_model, model.d_ff, model.dtype);
    const std::int64_t computed = sums.kept + sums.added;
    out.useful_flops = as_double(computed) * flops_a_row;
    out.scheduled_flops = as_double(sums.scheduled) * flops_a_row;
    out.padding_activation_bytes = as_double(sums.scheduled - computed) * as_double(up.activation_bytes);
  }
  return out;
}

RoutingFigures LayerSums::figures(const ReportPlan& plan) const {
  RoutingFigures out;
  out.batches = batches_;
  out.batches_with_rows = batches_with_rows_;
  out.tokens = tokens_;
  out.useful_rows = useful_rows_;
  out.unrouted = unrouted_;
  out.duplicate_rows = duplicate_rows_;
  out.active_experts = active_experts_;
  out.empty_experts = batches_with_rows_ * plan.experts - active_experts_;
  out.max_over_mean = max_over_mean_.mean(batches_with_rows_);
  out.max_over_mean_max = max_over_mean_most_;
  out.coefficient_of_variation = coefficient_of_variation_.mean(batches_with_rows_);
  out.gini = gini_.mean(batches_with_rows_);
  if (plan.model) {
    const ModelShape& model = *plan.model;
    const ProductCost up = up_product_cost(model.mlp, 1, 1, model.d_model, model.d_ff, model.dtype);
    const ProductCost down = down_product_cost(1, 1, model.d_model, model.d_ff, model.dtype);
    out.weight_bytes = as_double(active_experts_) * as_double(up.weight_bytes + down.weight_bytes);
    out.activation_bytes = as_double(useful_rows_) * as_double(up.activation_bytes + down.activation_bytes);
  }
  for (std::size_t i = 0; i < policies_.size(); ++i) out.policies.push_back(policy_figures(plan, i));
  for (std::size_t i = 0; i < report_blocks.size(); ++i)
    out.padding_by_block.push_back({report_blocks[i], scheduled_by_block_[i],
                                    padding_fraction(scheduled_by_block_[i], useful_rows_, 0)});
  if (plan.ranks > 0)
    out.ranks = RankFigures{{}, ranks_.max_over_mean.mean(batches_with_rows_), ranks_.most, {}};
  if (plan.sms > 0)
    out.tiles = TileFigures{tiles_.tiles,
                            tiles_.waves,
                            tiles_.idle_of_last_wave.mean(batches_with_rows_),
                            ratio(tiles_.waves * plan.sms - tiles_.tiles, tiles_.waves * plan.sms),
                            tiles_.longest_share.mean(batches_with_rows_),
                            tiles_.longest_share_most};
  return out;
}

RoutingFigures LayerSums::layer_figures(const ReportPlan& plan) const {
  check_rows_of_layer(useful_rows_);
  RoutingFigures out = figures(plan);
  out.rows_per_expert = rows_per_expert_;
  out.experts_never_used = std::count(rows_per_expert_.begin(), rows_per_expert_.end(), 0);
  const Imbalance summed = summed_imbalance(rows_per_expert_);
  out.summed_max_over_mean = summed.max_over_mean;
  out.summed_coefficient_of_variation = summed.coefficient_of_variation;
  out.summed_gini = summed.gini;
  for (std::int64_t rank = 0; rank < plan.ranks; ++rank)
    out.ranks->rows_per_rank.push_back(plan.contiguous_ranks->of_rank(rank, rows_per_expert_));
  return out;
}

}  // namespace dropless
