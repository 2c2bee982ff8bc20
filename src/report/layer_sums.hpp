// Everything that a report accumulates over the batches of one layer: integer sums and order-independent sums
// only, so that the result is the same however batches were spread over workers.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "dropless/report.hpp"
#include "report/fixed_point_sum.hpp"
#include "report/fraction_distribution.hpp"
#include "report/imbalance.hpp"
#include "report/row_histogram.hpp"
#include "report/time_sums.hpp"

namespace dropless {

/// What stays the same for all batches of a report.
struct ReportPlan {
  std::vector<Policy> policies;
  std::int64_t experts = 0;
  std::int64_t ranks = 0, sms = 0;
  std::optional<RankRows> contiguous_ranks;  ///< with ranks
  std::int64_t column_tiles = 1;             ///< tiles side by side that cover the up product's columns
  std::optional<ModelShape> model;
  std::optional<TimeModel> time;  ///< only with a model
};

constexpr std::array<std::int64_t, 5> report_blocks{16, 32, 64, 128, 256};

/// Throws Error past 2^40 rows: within that bound no sum over a layer's batches comes near 2^63.
void check_rows_of_layer(std::int64_t rows);

/// Memory that one worker reuses from batch to batch.
struct BatchScratch {
  GiniCounter gini;
  std::vector<double> fractions;
  std::vector<ModelledTime> times;
};

class LayerSums {
 public:
  explicit LayerSums(const ReportPlan& plan);

  /// Adds a batch; `unrouted` and `duplicate_rows` are the batch's.
  void add(const ReportPlan& plan, const BatchRows& rows, std::int64_t unrouted, std::int64_t duplicate_rows,
           BatchScratch& scratch);
  /// Adds batches of one token each. `top_k` is less than every policy's rows_by_place_from, and the plan has
  /// no ranks.
  void add(const ReportPlan& plan, const TokenBatches& batches, std::int64_t top_k, BatchScratch& scratch);
  /// Adds another layer's or worker's sums.
  void add(const LayerSums& other);

  /// From here on percentiles come from bins.
  void use_bins();
  const RowHistogram& rows_of_experts() const { return rows_of_experts_; }
  const RowHistogram& rows_of_batches() const { return rows_of_batches_; }
  const std::array<std::int64_t, 20>& batches_by_padding() const { return batches_by_padding_; }

  /// The figures of these batches, without those by expert, which mean something for one layer only.
  RoutingFigures figures(const ReportPlan& plan) const;
  /// The figures of one layer, those by expert included.
  RoutingFigures layer_figures(const ReportPlan& plan) const;

 private:
  struct PolicySums {
    std::int64_t scheduled = 0, launched = 0, kept = 0, dropped = 0, added = 0, metadata = 0;
    bool metadata_known = true;

    void add(const PolicySums& more);
  };
  struct RankSums {
    FixedPointSum max_over_mean;
    double most = 0;
  };
  struct TileSums {
    std::int64_t tiles = 0, waves = 0;
    FixedPointSum idle_of_last_wave, longest_share;
    double longest_share_most = 0;
  };

  PolicyFigures policy_figures(const ReportPlan& plan, std::size_t policy) const;
  /// All but the rows of each expert, of `times` batches that are alike and have rows.
  void add_alike(const ReportPlan& plan, const BatchRows& rows, std::int64_t times, BatchScratch& scratch);
  void add_policies(const ReportPlan& plan, const BatchRows& rows, std::int64_t times, BatchScratch& scratch);
  void add_ranks(const ReportPlan& plan, const BatchRows& rows);
  void add_tiles(const ReportPlan& plan, const BatchRows& rows, std::int64_t times);

  std::int64_t batches_ = 0, batches_with_rows_ = 0, tokens_ = 0;
  std::int64_t useful_rows_ = 0, unrouted_ = 0, duplicate_rows_ = 0, active_experts_ = 0;
  FixedPointSum max_over_mean_, coefficient_of_variation_, gini_;
  double max_over_mean_most_ = 0;
  std::vector<std::int64_t> rows_per_expert_;
  std::vector<PolicySums> policies_;
  FractionDistribution padding_;
  std::array<std::int64_t, report_blocks.size()> scheduled_by_block_{};
  std::array<std::int64_t, 20> batches_by_padding_{};
  RowHistogram rows_of_experts_, rows_of_batches_;
  RankSums ranks_;
  TileSums tiles_;
  std::optional<TimeSums> times_;
};

}  // namespace dropless
