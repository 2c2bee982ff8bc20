// The sinks of the ranks.
#include "report/rank_sums.hpp"

#include <algorithm>
#include <numeric>

#include "add_rows.hpp"

namespace dropless {

ArrayView<const std::int64_t> WithoutWarmup::rows(int worker, const Batch& batch) {
  if (batch.warmup_rows == 0) return batch.rows_per_expert;
  std::vector<std::int64_t>& rows = workers_[static_cast<std::size_t>(worker)];
  rows.assign(batch.rows_per_expert.begin(), batch.rows_per_expert.end());
  for (std::size_t e = 0; e < rows.size(); ++e) rows[e] -= batch.warmup_rows_per_expert[e];
  return rows;
}

BatchSpans::BatchSpans(BatchSink& next, const LayerIndex& layers, int workers)
    : next_(next),
      layers_(layers),
      workers_(static_cast<std::size_t>(workers), std::vector<Span>(layers.size())) {}

void BatchSpans::batch(int worker, const Batch& batch) {
  next_.batch(worker, batch);
  if (batch.warmup_rows > 0 && batch.tokens == batch.warmup_rows) return;
  Span& span = workers_[static_cast<std::size_t>(worker)][layers_.at(batch.layer)];
  span.first = std::min(span.first, batch.index);
  span.last = std::max(span.last, batch.index);
}

std::vector<BatchSpans::Span> BatchSpans::joined() const {
  std::vector<Span> spans(layers_.size());
  for (const std::vector<Span>& worker : workers_)
    for (std::size_t i = 0; i < spans.size(); ++i) {
      spans[i].first = std::min(spans[i].first, worker[i].first);
      spans[i].last = std::max(spans[i].last, worker[i].last);
    }
  return spans;
}

std::vector<std::int64_t> BatchSpans::second_halves() const {
  std::vector<std::int64_t> starts;
  for (const Span& span : joined())
    starts.push_back(
        span.last < 0 ? 0 : span.first + std::max<std::int64_t>(1, (span.last - span.first + 1) / 2));
  return starts;
}

std::int64_t BatchSpans::layers_without_second_half() const {
  const std::vector<Span> spans = joined();
  return std::count_if(spans.begin(), spans.end(), [](const Span& span) { return span.last <= span.first; });
}

FirstHalfRows::FirstHalfRows(const LayerIndex& layers, const std::vector<std::int64_t>& ends,
                             std::int64_t experts, int workers)
    : layers_(layers),
      ends_(ends),
      experts_(experts),
      workers_(static_cast<std::size_t>(workers)),
      warmup_(workers) {
  for (auto& worker : workers_) worker.resize(layers.size());
}

void FirstHalfRows::batch(int worker, const Batch& batch) {
  const std::size_t layer = layers_.at(batch.layer);
  if (batch.index >= ends_[layer]) return;
  add_rows(workers_[static_cast<std::size_t>(worker)][layer], warmup_.rows(worker, batch));
}

std::vector<std::int64_t> FirstHalfRows::layer(std::size_t index) const {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(experts_));
  for (const auto& worker : workers_)
    if (!worker[index].empty()) add_rows(rows, worker[index]);
  return rows;
}

RankBalanceSums::RankBalanceSums(std::size_t placements, bool exact, bool timed)
    : fullest_(placements), max_over_mean_(placements), shares_(placements), scratch_(placements) {
  if (timed) times_.emplace(placements);
  if (exact) return;
  shares_.use_bins();
  if (times_) times_->use_bins();
}

void RankBalanceSums::add(std::int64_t rows, const std::vector<std::int64_t>& fullest,
                          const std::vector<ModelledTime>& slowest, std::int64_t ranks) {
  ++batches_;
  for (std::size_t i = 0; i < fullest.size(); ++i) {
    fullest_[i] += fullest[i];
    scratch_[i] = static_cast<double>(fullest[i]) / static_cast<double>(rows);
    max_over_mean_[i].add(scratch_[i] * static_cast<double>(ranks));
  }
  shares_.add(scratch_.data());
  if (times_) times_->add(slowest, 1);
}

void RankBalanceSums::add(const RankBalanceSums& other) {
  batches_ += other.batches_;
  for (std::size_t i = 0; i < fullest_.size(); ++i) {
    fullest_[i] += other.fullest_[i];
    max_over_mean_[i].add(other.max_over_mean_[i]);
  }
  shares_.add(other.shares_);
  if (times_) times_->add(*other.times_);
}

RankBalance RankBalanceSums::figures(std::size_t placement, std::int64_t ranks) const {
  RankBalance out;
  out.batches = batches_;
  if (batches_ == 0) return out;
  // The mean rows of a rank are 1 / ranks of a batch's.
  const auto scale = static_cast<double>(ranks);
  out.fullest_rank_rows = fullest_[placement];
  out.max_over_mean = max_over_mean_[placement].mean(batches_);
  out.p50 = shares_.percentile(placement, 0.50) * scale;
  out.p95 = shares_.percentile(placement, 0.95) * scale;
  out.p99 = shares_.percentile(placement, 0.99) * scale;
  out.max = shares_.largest(placement) * scale;
  if (times_) out.slowest_rank = times_->figures(placement, batches_);
  return out;
}

RankScores::RankScores(const LayerIndex& layers, const std::vector<std::int64_t>& ends,
                       const std::vector<std::vector<RankRows>>& placements, const ReportOptions& options,
                       bool exact, int workers)
    : layers_(layers),
      ends_(ends),
      placements_(placements),
      options_(options),
      exact_(exact),
      workers_(static_cast<std::size_t>(workers)),
      warmup_(workers) {
  for (Worker& worker : workers_) {
    worker.layers.resize(layers.size());
    worker.fullest.resize(placements.size());
    worker.slowest.resize(timed() ? placements.size() : 0);
  }
}

void RankScores::batch(int worker_number, const Batch& batch) {
  const ArrayView<const std::int64_t> rows_per_expert = warmup_.rows(worker_number, batch);
  const std::int64_t rows = std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), std::int64_t{0});
  if (rows == 0) return;
  Worker& worker = workers_[static_cast<std::size_t>(worker_number)];
  const std::size_t layer = layers_.at(batch.layer);
  const bool second = !ends_.empty() && batch.index >= ends_[layer];
  std::unique_ptr<RankBalanceSums>& sums = worker.layers[layer][second ? 1 : 0];
  if (!sums) sums = std::make_unique<RankBalanceSums>(placements_.size(), exact_, timed());
  for (std::size_t i = 0; i < placements_.size(); ++i) {
    worker.fullest[i] = placements_[i][layer].most(rows_per_expert);
    if (timed()) worker.slowest[i] = slowest(placements_[i][layer], rows_per_expert);
  }
  sums->add(rows, worker.fullest, worker.slowest, options_.ranks);
}

ModelledTime RankScores::slowest(const RankRows& ranks, ArrayView<const std::int64_t> rows_per_expert) const {
  ModelledTime most;
  for (std::int64_t rank = 0; rank < options_.ranks; ++rank) {
    const ModelledTime time =
        batch_time(*options_.time, ranks.work_of_rank(rank, rows_per_expert), *options_.model);
    if (time.us > most.us) most = time;
  }
  return most;
}

RankBalanceSums RankScores::layer(std::size_t index, std::size_t half) const {
  RankBalanceSums sums(placements_.size(), exact_, timed());
  for (const Worker& worker : workers_)
    if (const auto& part = worker.layers[index][half]) sums.add(*part);
  return sums;
}

}  // namespace dropless
