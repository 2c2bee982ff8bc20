// What the ranks of a trace need over its batches: where the first half of a layer's batches ends, the rows
// that a placement is fitted on, and how even the ranks of each batch are. Each sink keeps its workers apart
// and adds them up afterwards, in sums that do not depend on which worker took which batch.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dropless/placement.hpp"
#include "dropless/report.hpp"
#include "report/fixed_point_sum.hpp"
#include "report/fraction_distribution.hpp"
#include "report/time_sums.hpp"

namespace dropless {

/// From a layer's number to its place in TraceInfo::layers.
using LayerIndex = std::unordered_map<std::int64_t, std::size_t>;

/// A batch's rows less those of the warm-up, which is no routing to fit a placement to.
class WithoutWarmup {
 public:
  explicit WithoutWarmup(int workers) : workers_(static_cast<std::size_t>(workers)) {}
  /// [experts], valid until the worker's next call and while the batch is.
  ArrayView<const std::int64_t> rows(int worker, const Batch& batch);

 private:
  std::vector<std::vector<std::int64_t>> workers_;
};

/// Passes batches on and remembers the numbers of a layer's first and last that are not all warm-up.
class BatchSpans : public BatchSink {
 public:
  BatchSpans(BatchSink& next, const LayerIndex& layers, int workers);
  void batch(int worker, const Batch& batch) override;

  /// For each layer the number of the first batch of the second half; an only batch is a first half.
  std::vector<std::int64_t> second_halves() const;
  /// Layers with fewer than two batches have no second half.
  std::int64_t layers_without_second_half() const;

 private:
  struct Span {
    std::int64_t first = std::numeric_limits<std::int64_t>::max(), last = -1;
  };
  std::vector<Span> joined() const;

  BatchSink& next_;
  const LayerIndex& layers_;
  std::vector<std::vector<Span>> workers_;  // [workers][layers]
};

/// Rows per expert of each layer without its warm-up, summed over the batches before `ends`.
class FirstHalfRows : public BatchSink {
 public:
  FirstHalfRows(const LayerIndex& layers, const std::vector<std::int64_t>& ends, std::int64_t experts,
                int workers);
  void batch(int worker, const Batch& batch) override;
  std::vector<std::int64_t> layer(std::size_t index) const;

 private:
  const LayerIndex& layers_;
  const std::vector<std::int64_t>& ends_;
  std::int64_t experts_;
  std::vector<std::vector<std::vector<std::int64_t>>> workers_;  // [workers][layers][experts], or empty
  WithoutWarmup warmup_;
};

/// How even the ranks of some batches are under each of several placements.
class RankBalanceSums {
 public:
  /// `timed`: whether the slowest ranks' times are known.
  RankBalanceSums(std::size_t placements, bool exact, bool timed);
  /// A batch of `rows` rows, of which the fullest rank has fullest[i] under placement i and the slowest rank
  /// takes slowest[i], where that is known.
  void add(std::int64_t rows, const std::vector<std::int64_t>& fullest,
           const std::vector<ModelledTime>& slowest, std::int64_t ranks);
  void add(const RankBalanceSums& other);
  RankBalance figures(std::size_t placement, std::int64_t ranks) const;

 private:
  std::int64_t batches_ = 0;
  std::vector<std::int64_t> fullest_;
  std::vector<FixedPointSum> max_over_mean_;
  FractionDistribution shares_;    // of a batch's rows, on its fullest rank
  std::optional<TimeSums> times_;  // of the slowest rank
  std::vector<double> scratch_;
};

/// Scores placements batch by batch, warm-up rows left out.
class RankScores : public BatchSink {
 public:
  /// placements[i][layer] counts the rows of that layer's ranks. `ends` as in FirstHalfRows; empty: all
  /// batches count as first half. `exact`: as Report::exact_percentiles.
  RankScores(const LayerIndex& layers, const std::vector<std::int64_t>& ends,
             const std::vector<std::vector<RankRows>>& placements, const ReportOptions& options, bool exact,
             int workers);
  void batch(int worker, const Batch& batch) override;

  /// The sums of a layer's first or second half over all workers.
  RankBalanceSums layer(std::size_t index, std::size_t half) const;

 private:
  struct Worker {
    std::vector<std::array<std::unique_ptr<RankBalanceSums>, 2>> layers;
    std::vector<std::int64_t> fullest;
    std::vector<ModelledTime> slowest;
  };
  bool timed() const { return options_.time && options_.model; }
  ModelledTime slowest(const RankRows& ranks, ArrayView<const std::int64_t> rows_per_expert) const;

  const LayerIndex& layers_;
  const std::vector<std::int64_t>& ends_;
  const std::vector<std::vector<RankRows>>& placements_;
  const ReportOptions& options_;
  bool exact_;
  std::vector<Worker> workers_;
  WithoutWarmup warmup_;
};

}  // namespace dropless
