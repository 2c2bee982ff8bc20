// A reader hands the parts of the largest batch to one worker, in order: so a sum is full when its last part
// arrives, and what is still open at the end is a layer's last batch.
#include "traces/nested_batches.hpp"

#include <fmt/format.h>

#include "add_rows.hpp"

namespace dropless {
NestedBatches::NestedBatches(std::vector<SizedSink> sinks, int workers)
    : sinks_(std::move(sinks)), workers_(static_cast<std::size_t>(workers)) {}

void NestedBatches::batch(int worker, const Batch& batch) {
  add(worker, sums_of(worker, batch.layer), 0, batch, batch.index, batch.index + 1);
}

std::int64_t NestedBatches::most_token_batches() const {
  const std::int64_t most = sinks_[0].together == 1 ? sinks_[0].sink->most_token_batches() : 0;
  if (sinks_.size() == 1) return most;
  // Runs are cut at the next size's batches; where those are longer than the sink takes, it takes none.
  return sinks_[1].together <= most ? sinks_[1].together : 0;
}

void NestedBatches::token_batches(int worker, const TokenBatches& batches) {
  sinks_[0].sink->token_batches(worker, batches);
  if (sinks_.size() == 1) return;
  Batch part;
  part.layer = batches.layer;
  part.tokens = batches.batches;
  part.rows_per_expert = batches.rows_per_expert;
  add(worker, sums_of(worker, part.layer), 1, part, batches.index, batches.index + batches.batches);
}

std::vector<NestedBatches::Sum>& NestedBatches::sums_of(int worker_number, std::int64_t layer) {
  Worker& worker = workers_[static_cast<std::size_t>(worker_number)];
  if (worker.last_sums == nullptr || worker.last_layer != layer) {
    worker.last_layer = layer;
    worker.last_sums = &worker.layers.try_emplace(layer, sinks_.size()).first->second;
  }
  return *worker.last_sums;
}

void NestedBatches::add(int worker, std::vector<Sum>& sums, std::size_t i, const Batch& part,
                        std::int64_t begin, std::int64_t end) {
  const std::int64_t together = sinks_[i].together;
  const std::int64_t index = begin / together;
  Sum& sum = sums[i];
  if ((end - 1) / together != index || (sum.open && sum.batch.index != index))
    throw Error("a part of a batch", fmt::format("batches [{}, {}) of the trace", begin, end),
                fmt::format("within one batch of {} of them, the open one", together));
  if (end - begin == together) {
    sum.batch = part;
    sum.batch.index = index;
    deliver(worker, sums, i, sum.batch);
    return;
  }
  if (!sum.open) {
    sum.open = true;
    sum.batch = Batch{};
    sum.batch.layer = part.layer;
    sum.batch.index = index;
    sum.rows.assign(part.rows_per_expert.begin(), part.rows_per_expert.end());
    sum.warmup_rows.clear();
  } else {
    add_rows(sum.rows, part.rows_per_expert);
  }
  sum.batch.tokens += part.tokens;
  sum.batch.unrouted += part.unrouted;
  sum.batch.duplicate_rows += part.duplicate_rows;
  sum.batch.warmup_rows += part.warmup_rows;
  if (part.warmup_rows > 0) add_rows(sum.warmup_rows, part.warmup_rows_per_expert);
  if (end % together == 0) close(worker, sums, i);
}

void NestedBatches::close(int worker, std::vector<Sum>& sums, std::size_t i) {
  Sum& sum = sums[i];
  if (!sum.open) return;
  sum.open = false;
  sum.batch.rows_per_expert = sum.rows;
  sum.batch.warmup_rows_per_expert = sum.warmup_rows;
  deliver(worker, sums, i, sum.batch);
}

void NestedBatches::deliver(int worker, std::vector<Sum>& sums, std::size_t i, const Batch& batch) {
  sinks_[i].sink->batch(worker, batch);
  if (i + 1 == sinks_.size()) return;
  const std::int64_t begin = batch.index * sinks_[i].together;
  add(worker, sums, i + 1, batch, begin, begin + sinks_[i].together);
}

void NestedBatches::finish() {
  for (std::size_t worker = 0; worker < workers_.size(); ++worker)
    for (auto& [layer, sums] : workers_[worker].layers)
      for (std::size_t i = 0; i < sinks_.size(); ++i) close(static_cast<int>(worker), sums, i);
}

std::vector<LayerFacts> read_nested(Trace& trace, std::vector<SizedSink> sinks, int workers,
                                    Progress progress, void* context) {
  NestedBatches nested(std::move(sinks), workers);
  const std::vector<LayerFacts> facts = trace.read(nested, workers, progress, context);
  nested.finish();
  return facts;
}

}  // namespace dropless
