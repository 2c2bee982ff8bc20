// One batch to its worker's sums; the workers' sums to one.
#include "report/trace_sums.hpp"

#include <algorithm>
#include <limits>

#include "add_rows.hpp"

namespace dropless {

TraceSums::TraceSums(const ReportPlan& plan, const TraceInfo& trace, int workers)
    : plan_(plan), top_k_(trace.top_k) {
  for (std::size_t i = 0; i < trace.layers.size(); ++i) index_of_layer_[trace.layers[i]] = i;
  for (int i = 0; i < workers; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->layers.resize(trace.layers.size());
    workers_.back()->tokens.resize(trace.layers.size());
  }
}

void TraceSums::batch(int worker_number, const Batch& batch) {
  Worker& worker = *workers_[static_cast<std::size_t>(worker_number)];
  expect(worker, 1);
  LayerParts& layer = worker.layers[layer_index(worker, batch.layer)];
  worker.rows.assign(batch.rows_per_expert, batch.tokens, top_k_);
  LayerSums& as_read = sums(batch.warmup_rows > 0 ? layer.warmup : layer.plain, worker);
  as_read.add(plan_, worker.rows, batch.unrouted, batch.duplicate_rows, worker.scratch);
  if (batch.warmup_rows == 0) return;
  worker.without_warmup.assign(batch.rows_per_expert.begin(), batch.rows_per_expert.end());
  for (std::size_t e = 0; e < worker.without_warmup.size(); ++e)
    worker.without_warmup[e] -= batch.warmup_rows_per_expert[e];
  worker.rows.assign(worker.without_warmup, batch.tokens - batch.warmup_rows, top_k_);
  // A batch of warm-up rows alone would not have been.
  if (worker.rows.rows() > 0 || batch.tokens > batch.warmup_rows)
    sums(layer.corrected, worker)
        .add(plan_, worker.rows, batch.unrouted, batch.duplicate_rows, worker.scratch);
}

std::int64_t TraceSums::most_token_batches() const {
  const bool alike = plan_.ranks == 0 &&
                     std::all_of(plan_.policies.begin(), plan_.policies.end(),
                                 [&](const Policy& policy) { return top_k_ < policy.rows_by_place_from; });
  return alike ? std::numeric_limits<std::int64_t>::max() : 0;
}

void TraceSums::token_batches(int worker_number, const TokenBatches& batches) {
  Worker& worker = *workers_[static_cast<std::size_t>(worker_number)];
  expect(worker, batches.batches);
  TokenSums& sums = worker.tokens[layer_index(worker, batches.layer)];
  sums.batches += batches.batches;
  add_rows(sums.rows_per_expert, batches.rows_per_expert);
  add_rows(sums.lowest_expert, batches.lowest_expert);
}

std::size_t TraceSums::layer_index(Worker& worker, std::int64_t layer) const {
  if (worker.last_layer != layer) {
    worker.last_index = index_of_layer_.at(layer);
    worker.last_layer = layer;
  }
  return worker.last_index;
}

void TraceSums::expect(Worker& worker, std::int64_t batches) {
  const bool were_few = worker.batches <= most_exact_batches;
  worker.batches += batches;
  if (were_few && worker.batches > most_exact_batches) use_bins(worker);
}

LayerSums& TraceSums::sums(std::unique_ptr<LayerSums>& part, const Worker& worker) const {
  if (!part) {
    part = std::make_unique<LayerSums>(plan_);
    if (worker.batches > most_exact_batches) part->use_bins();
  }
  return *part;
}

void TraceSums::use_bins(Worker& worker) {
  for (LayerParts& layer : worker.layers)
    for (LayerSums* part : {layer.plain.get(), layer.warmup.get(), layer.corrected.get()})
      if (part != nullptr) part->use_bins();
}

bool TraceSums::settle() {
  std::int64_t batches = 0;
  for (const auto& worker : workers_) {
    batches += worker->batches;
    for (std::size_t layer = 0; layer < worker->tokens.size(); ++layer) {
      const TokenSums& tokens = worker->tokens[layer];
      if (tokens.batches > 0)
        sums(worker->layers[layer].plain, *worker)
            .add(plan_, {0, 0, tokens.batches, tokens.rows_per_expert, tokens.lowest_expert}, top_k_,
                 worker->scratch);
    }
  }
  if (batches <= most_exact_batches) return true;
  for (const auto& worker : workers_) use_bins(*worker);
  return false;
}

LayerParts TraceSums::take_layer(std::size_t index) {
  LayerParts all;
  for (const auto& worker : workers_) {
    LayerParts& parts = worker->layers[index];
    for (const auto part : {&LayerParts::plain, &LayerParts::warmup, &LayerParts::corrected}) {
      if (!(parts.*part)) continue;
      if (all.*part)
        (all.*part)->add(*(parts.*part));
      else
        all.*part = std::move(parts.*part);
      (parts.*part).reset();
    }
  }
  return all;
}

}  // namespace dropless
