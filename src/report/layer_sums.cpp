// One batch, or many that are alike, into the sums, and the sums of workers and layers into one.
#include "report/layer_sums.hpp"

#include <algorithm>

#include "add_rows.hpp"
#include "dropless/row_tiles.hpp"
#include "ratio.hpp"

namespace dropless {

void LayerSums::PolicySums::add(const PolicySums& more) {
  scheduled += more.scheduled;
  launched += more.launched;
  kept += more.kept;
  dropped += more.dropped;
  added += more.added;
  metadata += more.metadata;
  metadata_known &= more.metadata_known;
}

void check_rows_of_layer(std::int64_t rows) {
  if (rows > std::int64_t{1} << 40) throw Error("rows of a layer", std::to_string(rows), "at most 2^40");
}

LayerSums::LayerSums(const ReportPlan& plan)
    : rows_per_expert_(static_cast<std::size_t>(plan.experts)),
      policies_(plan.policies.size()),
      padding_(plan.policies.size()) {
  if (plan.time) times_.emplace(plan.policies.size());
}

void LayerSums::use_bins() {
  padding_.use_bins();
  if (times_) times_->use_bins();
}

void LayerSums::add(const ReportPlan& plan, const BatchRows& rows, std::int64_t unrouted,
                    std::int64_t duplicate_rows, BatchScratch& scratch) {
  ++batches_;
  tokens_ += rows.tokens();
  unrouted_ += unrouted;
  duplicate_rows_ += duplicate_rows;
  if (rows.rows() == 0) return;
  add_rows(rows_per_expert_, rows.rows_per_expert());
  add_alike(plan, rows, 1, scratch);
  if (plan.ranks > 0) add_ranks(plan, rows);
}

void LayerSums::add(const ReportPlan& plan, const TokenBatches& batches, std::int64_t top_k,
                    BatchScratch& scratch) {
  batches_ += batches.batches;
  tokens_ += batches.batches;
  const auto experts = static_cast<std::size_t>(plan.experts);
  add_rows(rows_per_expert_, batches.rows_per_expert);
  std::vector<std::int64_t> one_token(experts);
  std::fill(one_token.end() - (top_k - 1), one_token.end(), 1);
  BatchRows rows;
  for (std::size_t lowest = 0; lowest + static_cast<std::size_t>(top_k) <= experts; ++lowest) {
    if (batches.lowest_expert[lowest] == 0) continue;
    one_token[lowest] = 1;
    rows.assign(one_token, 1, top_k);
    add_alike(plan, rows, batches.lowest_expert[lowest], scratch);
    one_token[lowest] = 0;
  }
}

void LayerSums::add_alike(const ReportPlan& plan, const BatchRows& rows, std::int64_t times,
                          BatchScratch& scratch) {
  batches_with_rows_ += times;
  useful_rows_ += times * rows.rows();
  check_rows_of_layer(useful_rows_);
  active_experts_ += times * rows.active_experts();
  rows_of_batches_.add(rows.rows(), times);
  const Imbalance measures = imbalance(rows, scratch.gini(rows, times, rows_of_experts_));
  max_over_mean_.add(measures.max_over_mean, times);
  max_over_mean_most_ = std::max(max_over_mean_most_, measures.max_over_mean);
  coefficient_of_variation_.add(measures.coefficient_of_variation, times);
  gini_.add(measures.gini, times);
  add_policies(plan, rows, times, scratch);
  if (plan.sms > 0) add_tiles(plan, rows, times);
}

void LayerSums::add_policies(const ReportPlan& plan, const BatchRows& rows, std::int64_t times,
                             BatchScratch& scratch) {
  scratch.fractions.resize(policies_.size());
  scratch.times.clear();
  for (std::size_t i = 0; i < policies_.size(); ++i) {
    const PolicyCost cost = plan.policies[i].cost(rows);
    PolicySums& sums = policies_[i];
    sums.scheduled += times * cost.scheduled_rows;
    sums.launched += times * cost.launched_rows;
    sums.kept += times * cost.kept_rows;
    sums.dropped += times * cost.dropped_rows;
    sums.added += times * cost.added_rows;
    sums.metadata += times * cost.metadata_bytes.value_or(0);
    sums.metadata_known &= cost.metadata_bytes.has_value();
    scratch.fractions[i] = padding_fraction(cost.scheduled_rows, cost.kept_rows, cost.added_rows);
    if (times_)
      scratch.times.push_back(batch_time(
          *plan.time, {cost.kept_rows + cost.added_rows, cost.scheduled_rows, rows.active_experts()},
          *plan.model));
  }
  padding_.add(scratch.fractions.data(), times);
  if (times_) times_->add(scratch.times, times);
  for (std::size_t i = 0; i < report_blocks.size(); ++i)
    scheduled_by_block_[i] += times * rows.rounded_up(report_blocks[i]);
  const double padding_of_128 = padding_fraction(rows.rounded_up(128), rows.rows(), 0);
  batches_by_padding_[static_cast<std::size_t>(padding_of_128 * 20)] += times;
}

void LayerSums::add_ranks(const ReportPlan& plan, const BatchRows& rows) {
  const std::int64_t most = plan.contiguous_ranks->most(rows.rows_per_expert());
  const double max_over_mean =
      static_cast<double>(most) * static_cast<double>(plan.ranks) / static_cast<double>(rows.rows());
  ranks_.max_over_mean.add(max_over_mean);
  ranks_.most = std::max(ranks_.most, max_over_mean);
}

void LayerSums::add_tiles(const ReportPlan& plan, const BatchRows& rows, std::int64_t times) {
  constexpr RowTileRule rule{};
  std::int64_t tiles = 0, scheduled = 0;
  for (const std::int64_t count : rows.rows_per_expert()) {
    tiles += row_tile_count(count, rule);
    scheduled += scheduled_rows(count, rule);
  }
  tiles *= plan.column_tiles;
  const std::int64_t waves = ceil_div(tiles, plan.sms);
  tiles_.tiles += times * tiles;
  tiles_.waves += times * waves;
  tiles_.idle_of_last_wave.add(ratio(waves * plan.sms - tiles, plan.sms), times);
  const double longest = ratio(scheduled_rows(rows.largest(), rule), scheduled);
  tiles_.longest_share.add(longest, times);
  tiles_.longest_share_most = std::max(tiles_.longest_share_most, longest);
}

void LayerSums::add(const LayerSums& other) {
  batches_ += other.batches_;
  batches_with_rows_ += other.batches_with_rows_;
  tokens_ += other.tokens_;
  useful_rows_ += other.useful_rows_;
  unrouted_ += other.unrouted_;
  duplicate_rows_ += other.duplicate_rows_;
  active_experts_ += other.active_experts_;
  max_over_mean_.add(other.max_over_mean_);
  coefficient_of_variation_.add(other.coefficient_of_variation_);
  gini_.add(other.gini_);
  max_over_mean_most_ = std::max(max_over_mean_most_, other.max_over_mean_most_);
  add_rows(rows_per_expert_, other.rows_per_expert_);
  for (std::size_t i = 0; i < policies_.size(); ++i) policies_[i].add(other.policies_[i]);
  padding_.add(other.padding_);
  for (std::size_t i = 0; i < scheduled_by_block_.size(); ++i)
    scheduled_by_block_[i] += other.scheduled_by_block_[i];
  for (std::size_t i = 0; i < batches_by_padding_.size(); ++i)
    batches_by_padding_[i] += other.batches_by_padding_[i];
  rows_of_experts_.add(other.rows_of_experts_);
  rows_of_batches_.add(other.rows_of_batches_);
  ranks_.max_over_mean.add(other.ranks_.max_over_mean);
  ranks_.most = std::max(ranks_.most, other.ranks_.most);
  if (times_) times_->add(*other.times_);
  tiles_.tiles += other.tiles_.tiles;
  tiles_.waves += other.tiles_.waves;
  tiles_.idle_of_last_wave.add(other.tiles_.idle_of_last_wave);
  tiles_.longest_share.add(other.tiles_.longest_share);
  tiles_.longest_share_most = std::max(tiles_.longest_share_most, other.tiles_.longest_share_most);
}

}  // namespace dropless
