// The report on a routing trace: what each layout policy schedules for every batch, how uneven the experts
// are, and what that costs where widths are known. make_report() reads a trace once; the writers turn the
// result into text, JSON (data/report_schema.md documents every key) and CSV.
//
// Figures per batch (percentiles, means over batches, empty experts) cover batches with at least one row.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dropless/model_shape.hpp"
#include "dropless/placement.hpp"
#include "dropless/policy.hpp"
#include "dropless/time_model.hpp"
#include "dropless/trace.hpp"

namespace dropless {

struct ReportOptions {
  std::vector<std::string> policies;  ///< as expanded_policies() takes them; empty: default_policies()
  std::optional<ModelShape> model;    ///< widths, expert MLP kind and element type
  std::int64_t ranks = 0;             ///< > 0: expert-parallel ranks
  /// With ranks: contiguous (also where empty), strided, balanced, or a file that read_placement() reads.
  /// Balanced is fitted on the first half of each layer's batches, for which the trace is read once more.
  std::string placement;
  std::int64_t replicas = 0;      ///< with balanced: slots a layer has beyond one for each expert
  std::int64_t sms = 0;           ///< > 0: streaming multiprocessors, to count tiles and waves
  std::optional<TimeModel> time;  ///< with a model: how long the policies' products take
  int workers = 0;                ///< threads; 0: one for each core
};

/// Modelled time of both forward products over batches with rows: the sum of the batches' own times.
struct TimeFigures {
  double us = 0;
  double p50 = 0, p95 = 0, p99 = 0;  ///< microseconds of a batch, interpolated on a logarithmic scale
  double memory_bound_share = 0;     ///< share of the batches that the bandwidth holds up
};

/// What one policy schedules over some batches. Sums over batches, except for the percentiles.
struct PolicyFigures {
  std::int64_t scheduled_rows = 0, launched_rows = 0, kept_rows = 0, dropped_rows = 0, added_rows = 0;
  double padding_fraction = 0;  ///< 1 - (kept + added) / scheduled: a ratio of the sums
  /// Of the batches' own padding fractions, interpolated linearly.
  double padding_p50 = 0, padding_p95 = 0, padding_p99 = 0, padding_max = 0;
  std::optional<std::int64_t> metadata_bytes;
  /// With widths: FLOPs of the forward expert MLP over kept + added rows, and over scheduled rows.
  std::optional<double> useful_flops, scheduled_flops;
  /// With widths: padding rows times the elements of a row in X and in the up product's output, in bytes.
  std::optional<double> padding_activation_bytes;
  std::optional<TimeFigures> time;  ///< with widths and ReportOptions::time
};

/// Rounding every expert's rows up to `block`.
struct BlockPadding {
  std::int64_t block = 0, scheduled_rows = 0;
  double padding_fraction = 0;
};

/// How even the ranks of a batch are, over batches with rows.
struct RankBalance {
  std::int64_t batches = 0;
  std::int64_t fullest_rank_rows = 0;  ///< rows of a batch's fullest rank, summed
  /// Rows of the fullest rank / mean rows of a rank: mean over batches, and percentiles.
  double max_over_mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;
  /// With widths and ReportOptions::time: what this library's products take on a batch's slowest rank.
  std::optional<TimeFigures> slowest_rank;
};

/// The ranks of every batch under one placement, warm-up rows left out.
struct PlacementFigures {
  std::string placement;                     ///< contiguous, strided, balanced or file
  std::int64_t replicas = 0;                 ///< slots a layer has beyond one for each expert
  std::optional<double> extra_weight_bytes;  ///< with widths: weights of the replicas on all ranks
  RankBalance all;
  /// With balanced: the half of each layer's batches that it was fitted on, and the half that it has not
  /// seen.
  std::optional<RankBalance> first_half, second_half;
};

/// Rows of each expert-parallel rank when ranks hold contiguous ranges of experts of (nearly) equal size.
struct RankFigures {
  std::vector<std::int64_t> rows_per_rank;          ///< [ranks], summed over batches; empty in totals
  double max_over_mean = 0, max_over_mean_max = 0;  ///< mean and maximum over batches
  std::vector<PlacementFigures> placements;         ///< contiguous, strided, and ReportOptions::placement
};

/// Tiles of this library's up product on a device with `sms` multiprocessors, one tile each at a time.
struct TileFigures {
  std::int64_t tiles = 0, waves = 0;   ///< summed over batches; a batch takes ceil(tiles / sms) waves
  double idle_share_of_last_wave = 0;  ///< mean over batches
  double idle_share = 0;               ///< 1 - tiles / (waves * sms): a ratio of the sums
  double longest_expert_share = 0,
         longest_expert_share_max = 0;  ///< an expert's share of a batch's scheduled rows
};

/// Figures over the batches of one layer, or of all layers.
struct RoutingFigures {
  std::int64_t batches = 0, batches_with_rows = 0;
  std::int64_t tokens = 0;  ///< 0 where unknown
  std::int64_t useful_rows = 0, unrouted = 0, duplicate_rows = 0;
  std::int64_t active_experts = 0, empty_experts = 0;  ///< (batch, expert) pairs with and without rows
  std::int64_t experts_never_used = 0;                 ///< in totals: (layer, expert) pairs
  double max_over_mean = 0, max_over_mean_max = 0;     ///< mean and maximum over batches
  double coefficient_of_variation = 0, gini = 0;       ///< means over batches
  /// The same measures of the rows summed over batches: skew that stays. 0 in totals.
  double summed_max_over_mean = 0, summed_coefficient_of_variation = 0, summed_gini = 0;
  std::vector<std::int64_t> rows_per_expert;   ///< [experts], summed over batches; empty in totals
  std::vector<PolicyFigures> policies;         ///< in the order of Report::policies
  std::vector<BlockPadding> padding_by_block;  ///< 16, 32, 64, 128, 256
  std::optional<RankFigures> ranks;
  std::optional<TileFigures> tiles;
  /// With widths: weights of active experts read once a batch, and rows read and written by both products.
  std::optional<double> weight_bytes, activation_bytes;
};

struct LayerFigures {
  std::int64_t layer = 0;
  bool dense = false;  ///< not an MoE layer: left out of the totals
  std::int64_t warmup_rows = 0;
  RoutingFigures figures;
  std::optional<RoutingFigures> without_warmup;  ///< where the layer has warm-up rows
};

/// `batches` batches have at least `least` and fewer than `below`.
struct HistogramBin {
  double least = 0, below = 0;
  std::int64_t batches = 0;
};

/// Quantiles of a number of rows; exact below 4096 rows, within 1/64 above.
struct RowQuantiles {
  double mean = 0;
  std::int64_t least = 0, p10 = 0, p25 = 0, p50 = 0, p75 = 0, p90 = 0, p99 = 0, most = 0;
};

struct Report {
  TraceInfo trace;
  ReportOptions options;
  std::vector<Policy> policies;
  std::optional<Placement> placement;  ///< with ranks: the one that ReportOptions asks for, of every layer
  std::int64_t layers_without_second_half = 0;  ///< with balanced: layers of fewer than two batches
  bool exact_percentiles = true;  ///< up to 100000 batches; past that, percentiles come from bins of 1e-4
  std::int64_t trace_batches = 0, trace_tokens = 0,
               trace_assignments = 0;  ///< over all layers, dense ones included
  std::int64_t trace_unrouted = 0, trace_duplicate_rows = 0, trace_warmup_rows = 0;
  std::vector<std::string> warnings;
  RoutingFigures totals;  ///< over the layers that are not dense
  std::optional<RoutingFigures> totals_without_warmup;
  std::vector<LayerFigures> layers;
  RowQuantiles rows_per_expert;  ///< over (batch, expert) pairs of the totals
  RowQuantiles rows_per_batch;
  std::vector<HistogramBin> batches_by_rows, batches_by_padding;  ///< the latter of block:128, in 20 bins
};

/// Reads the whole trace. Throws Error where an option is refused or a policy needs what the trace lacks, and
/// whatever Trace::read throws. The result does not depend on the number of workers.
Report make_report(Trace& trace, const ReportOptions& options = {}, Progress progress = nullptr,
                   void* context = nullptr);

std::string report_text(const Report& report);  ///< a table of at most 100 columns
std::string report_json(const Report& report);  ///< schema_version 1
std::string report_csv(const Report& report);   ///< one line for each layer and policy, and the totals

/// A figure's name in the JSON, and one sentence that says what it counts.
struct MetricDefinition {
  std::string name;
  std::string definition;
  /// What tables call it where that is not the name. Figures may share one.
  std::vector<std::string> labels = {};
};
const std::vector<MetricDefinition>& metric_definitions();

/// The figures of that name or label; capitals, spaces and underscores do not matter. May be none.
std::vector<MetricDefinition> metrics_called(const std::string& label);

}  // namespace dropless
