// Gathers a trace's batches into sums, one set for each worker and layer, so that workers share nothing until
// the trace is read.
#pragma once
#include <memory>
#include <unordered_map>
#include <vector>

#include "report/layer_sums.hpp"

namespace dropless {

/// A layer's sums, kept apart by what the warm-up does to them. As the trace is: plain + warmup. As it would
/// be without its warm-up: plain + corrected.
struct LayerParts {
  std::unique_ptr<LayerSums> plain;      ///< batches without warm-up rows
  std::unique_ptr<LayerSums> warmup;     ///< batches with warm-up rows
  std::unique_ptr<LayerSums> corrected;  ///< the latter less their warm-up rows
};

class TraceSums : public BatchSink {
 public:
  /// Percentiles are exact up to this many batches.
  static constexpr std::int64_t most_exact_batches = 100'000;

  TraceSums(const ReportPlan& plan, const TraceInfo& trace, int workers);

  void batch(int worker, const Batch& batch) override;
  std::int64_t most_token_batches() const override;
  void token_batches(int worker, const TokenBatches& batches) override;

  /// Call once the trace is read; whether percentiles are exact.
  bool settle();
  /// The sums of layer `index` of TraceInfo::layers over all workers, which lose them. Call after settle().
  LayerParts take_layer(std::size_t index);

 private:
  /// A layer's token batches, summed: they go into its sums at the end, all at once.
  struct TokenSums {
    std::int64_t batches = 0;
    std::vector<std::int64_t> rows_per_expert, lowest_expert;
  };
  /// Written for every batch: on cache lines (and pairs of them, as hardware fetches them) of its own.
  struct alignas(128) Worker {
    BatchRows rows;
    BatchScratch scratch;
    std::vector<std::int64_t> without_warmup;
    std::vector<LayerParts> layers;
    std::vector<TokenSums> tokens;  // by layer
    std::int64_t batches = 0;
    std::int64_t last_layer = -1;  // most often the next batch's layer too
    std::size_t last_index = 0;
  };

  std::size_t layer_index(Worker& worker, std::int64_t layer) const;
  /// Counts batches that are about to be added.
  static void expect(Worker& worker, std::int64_t batches);
  LayerSums& sums(std::unique_ptr<LayerSums>& part, const Worker& worker) const;
  static void use_bins(Worker& worker);

  const ReportPlan& plan_;
  std::int64_t top_k_;
  std::unordered_map<std::int64_t, std::size_t> index_of_layer_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace dropless
