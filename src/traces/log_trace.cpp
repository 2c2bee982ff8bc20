// Delivering the batches of a log.
#include <fmt/format.h>

#include <algorithm>

#include "traces/array_trace.hpp"
#include "traces/batch_log.hpp"
#include "traces/known_names.hpp"
#include "traces/workers.hpp"

namespace dropless::traces {
namespace {

class LogTrace : public Trace {
 public:
  LogTrace(BatchLog log, TraceInfo info, const TraceOptions& options)
      : log_(std::move(log)), info_(std::move(info)) {
    if (log_.layers.empty())
      throw FileError(info_.path, "", "holds no routing records (" + known_names_text() + ")");
    info_.counts_only = log_.counts;
    info_.top_k = log_.top_k > 0 ? log_.top_k : options.top_k > 0 ? options.top_k : info_.top_k;
    info_.cumulative = info_.cumulative && !options.batched;
    for (const auto& [layer, facts] : log_.layers) info_.layers.push_back(layer);
    for (const std::int64_t layer : options.layers)
      if (log_.layers.count(layer) == 0)
        throw Error("layers", std::to_string(layer),
                    fmt::format("layers of the file: {}", fmt::join(info_.layers, ", ")));
    settle_experts(options);
    doubt(options);
  }

  const TraceInfo& info() const override { return info_; }

  std::vector<LayerFacts> read(BatchSink& sink, int workers, Progress progress, void* context) override {
    if (workers < 1) throw Error("workers", std::to_string(workers), "at least 1");
    run_workers(workers, [&](int worker) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(info_.experts)), warmup(rows.size());
      log_.replay(worker, workers, sink.batches_in_a_row(), [&](const LoggedBatch& logged) {
        Batch batch;
        batch.layer = logged.layer;
        batch.index = logged.index;
        batch.tokens = logged.tokens;
        batch.unrouted = logged.unrouted;
        batch.duplicate_rows = logged.duplicate_rows;
        batch.rows_per_expert = spread(logged.rows, rows);
        batch.warmup_rows = logged.warmup_rows;
        if (batch.warmup_rows > 0) batch.warmup_rows_per_expert = spread(logged.warmup, warmup);
        if (log_.counts && info_.top_k > 0) batch.tokens = sum(logged.rows) / info_.top_k;
        sink.batch(worker, batch);
      });
    });
    if (progress) progress(1, context);
    std::vector<LayerFacts> facts;
    for (const auto& [number, layer] : log_.layers) {
      LayerFacts of_layer;
      of_layer.layer = number;
      of_layer.tokens = layer.tokens;
      of_layer.warmup_rows = layer.warmup_rows;
      of_layer.duplicate_rows = layer.duplicate_rows;
      of_layer.unrouted = layer.unrouted;
      of_layer.dense = log_.counts
                           ? !layer.has_rows
                           : layer.tokens > 0 && (!layer.has_rows || (log_.top_k > 1 && layer.repeats_one));
      facts.push_back(of_layer);
    }
    if (log_.counts && info_.top_k > 0) add_tokens(facts);
    return facts;
  }

 private:
  static std::int64_t sum(const SparseRows& rows) {
    std::int64_t total = 0;
    for (const auto& [expert, count] : rows) total += count;
    return total;
  }

  static ArrayView<const std::int64_t> spread(const SparseRows& from, std::vector<std::int64_t>& to) {
    std::fill(to.begin(), to.end(), 0);
    for (const auto& [expert, count] : from) to[static_cast<std::size_t>(expert)] = count;
    return {to.data(), to.size()};
  }

  /// Counts say how many tokens there were once top_k is known.
  void add_tokens(std::vector<LayerFacts>& facts) const {
    std::map<std::int64_t, std::int64_t> tokens;
    log_.replay(0, 1, 1,
                [&](const LoggedBatch& batch) { tokens[batch.layer] += sum(batch.rows) / info_.top_k; });
    for (LayerFacts& layer : facts) layer.tokens = tokens[layer.layer];
  }

  void settle_experts(const TraceOptions& options) {
    const std::int64_t stated = options.experts > 0 ? options.experts : info_.experts;
    if (stated > 0 && (stated < log_.experts || (log_.experts_complete && stated != log_.experts)))
      throw FileError(info_.path, "",
                      fmt::format("names {} experts, but {} were stated", log_.experts, stated));
    if (stated == 0 && log_.experts == 0)
      throw FileError(info_.path, "",
                      "holds no expert id of 0 or more, so the number of experts must be stated");
    info_.experts = stated > 0 ? stated : log_.experts;
    if (info_.experts > most_experts)
      throw FileError(info_.path, "",
                      fmt::format("{} experts; at most {} are believed", info_.experts, most_experts));
    info_.experts_inferred = stated == 0 && !log_.experts_complete;
  }

  /// What the batches together say against the log.
  void doubt(const TraceOptions& options) {
    if (log_.running_sums && !options.batched)
      info_.warnings.push_back(
          "no expert's count ever falls and every layer's total grows evenly from record to record: these "
          "look like running sums, not counts of batches, so rows are counted again and again and block "
          "padding is near 0 by construction (log the differences; --batched if each record is a batch)");
    if (log_.steps_again > 0)
      info_.warnings.push_back(
          fmt::format("{} of a step that is not above the earlier ones of the layer (logged twice, or in "
                      "parts?): each was taken as a batch of its own{}",
                      log_.steps_again == 1 ? "1 batch is" : fmt::format("{} batches are", log_.steps_again),
                      options.batch_axes_given ? "" : " (--batch step sums what follows one another)"));
    if (!options.drop_warmup) doubt_missing_batches();
  }

  void doubt_missing_batches() {
    const auto fewer = [](const auto& a, const auto& b) { return a.second.batches < b.second.batches; };
    const auto [least, most] = std::minmax_element(log_.layers.begin(), log_.layers.end(), fewer);
    const std::int64_t batches = most->second.batches;
    const auto lacking = std::count_if(log_.layers.begin(), log_.layers.end(),
                                       [&](const auto& layer) { return layer.second.batches < batches; });
    if (lacking > 0)
      info_.warnings.push_back(
          fmt::format("{} of {} layers {} fewer batches than the others (layer {} has {}, layer {} has {}): "
                      "records may be missing, or logged twice",
                      lacking, log_.layers.size(), lacking == 1 ? "has" : "have", least->first,
                      least->second.batches, most->first, batches));
  }

  BatchLog log_;
  TraceInfo info_;
};

}  // namespace

std::unique_ptr<Trace> open_log_trace(BatchLog log, TraceInfo info, const TraceOptions& options) {
  return std::make_unique<LogTrace>(std::move(log), std::move(info), options);
}

}  // namespace dropless::traces
