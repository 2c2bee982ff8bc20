// Batches of several sizes from one reading of a trace: a larger size's batches are sums of a smaller one's.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "dropless/trace.hpp"

namespace dropless {

/// Takes batches of `together` of the trace's own batches each: batch i is the sum of the batches
/// [i * together, (i + 1) * together) of a layer, and a layer's last one what is left.
struct SizedSink {
  std::int64_t together = 1;
  BatchSink* sink = nullptr;
};

/// Serves several sinks from the batches of a trace that batch_tokens cuts.
class NestedBatches : public BatchSink {
 public:
  /// `sinks` by ascending size, each of which divides the next one. They ask for no batches in a row
  /// themselves, and outlive this object.
  NestedBatches(std::vector<SizedSink> sinks, int workers);

  void batch(int worker, const Batch& batch) override;
  std::int64_t batches_in_a_row() const override { return sinks_.back().together; }
  std::int64_t most_token_batches() const override;
  void token_batches(int worker, const TokenBatches& batches) override;

  /// Delivers the sums that are not full. Call once the trace is read.
  void finish();

 private:
  /// A batch of one of the sinks while its parts arrive.
  struct Sum {
    Batch batch;
    bool open = false;
    std::vector<std::int64_t> rows, warmup_rows;
  };
  struct alignas(128) Worker {                                  // cache lines of its own
    std::unordered_map<std::int64_t, std::vector<Sum>> layers;  // a sum for each sink
    std::int64_t last_layer = -1;
    std::vector<Sum>* last_sums = nullptr;
  };

  std::vector<Sum>& sums_of(int worker, std::int64_t layer);
  /// Adds a batch, which holds the trace's own batches [begin, end), to the batch of sink `i` that it is part
  /// of. Throws Error where that is not one batch, or not the open one: the reader broke BatchSink's
  /// promises.
  void add(int worker, std::vector<Sum>& sums, std::size_t i, const Batch& part, std::int64_t begin,
           std::int64_t end);
  /// Delivers what sink `i` has open.
  void close(int worker, std::vector<Sum>& sums, std::size_t i);
  /// Delivers a batch of sink `i` and adds it to the next sink's.
  void deliver(int worker, std::vector<Sum>& sums, std::size_t i, const Batch& batch);

  std::vector<SizedSink> sinks_;
  std::vector<Worker> workers_;
};

/// A trace that batch_tokens cuts, read into several sinks at once: Trace::read of NestedBatches.
std::vector<LayerFacts> read_nested(Trace& trace, std::vector<SizedSink> sinks, int workers,
                                    Progress progress, void* context);

/// A view of such a trace with batches `together` times as large.
class CoarserTrace : public Trace {
 public:
  CoarserTrace(Trace& trace, std::int64_t together) : trace_(trace), together_(together) {}
  const TraceInfo& info() const override { return trace_.info(); }
  std::vector<LayerFacts> read(BatchSink& sink, int workers, Progress progress, void* context) override {
    return read_nested(trace_, {{together_, &sink}}, workers, progress, context);
  }

 private:
  Trace& trace_;
  std::int64_t together_;
};

}  // namespace dropless
