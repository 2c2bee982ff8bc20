// A trace of batches held in memory: what a file would deliver, dealt to the workers in turn.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "dropless/trace.hpp"

/// Rows per expert of a batch; `warmup` is empty or the warm-up's share of them.
struct MemoryBatch {
  std::int64_t layer = 0;
  std::vector<std::int64_t> rows;
  std::int64_t unrouted = 0, duplicate_rows = 0, warmup_rows = 0;
  std::vector<std::int64_t> warmup = {};
};

class MemoryTrace : public dropless::Trace {
 public:
  MemoryTrace(std::int64_t experts, std::int64_t top_k, std::vector<MemoryBatch> batches)
      : batches_(std::move(batches)) {
    info_.path = "memory.npy";
    info_.format = "npy";
    info_.experts = experts;
    info_.top_k = top_k;
    for (const MemoryBatch& batch : batches_)
      if (info_.layers.empty() || info_.layers.back() != batch.layer) info_.layers.push_back(batch.layer);
  }

  const dropless::TraceInfo& info() const override { return info_; }
  dropless::TraceInfo& info() { return info_; }
  void set_dense(std::int64_t layer) { dense_layer_ = layer; }

  std::vector<dropless::LayerFacts> read(dropless::BatchSink& sink, int workers, dropless::Progress,
                                         void*) override {
    std::vector<dropless::LayerFacts> facts;
    for (const std::int64_t layer : info_.layers) {
      facts.emplace_back();
      facts.back().layer = layer;
      facts.back().dense = layer == dense_layer_;
    }
    std::size_t number = 0, layer = 0;
    std::int64_t index = 0;
    for (const MemoryBatch& held : batches_) {
      for (; info_.layers[layer] != held.layer; ++layer) index = 0;
      dropless::Batch batch;
      batch.layer = held.layer;
      batch.index = index++;
      std::int64_t rows = held.unrouted;
      for (const std::int64_t count : held.rows) rows += count;
      batch.tokens = info_.top_k > 0 ? rows / info_.top_k : 0;
      batch.unrouted = held.unrouted;
      batch.duplicate_rows = held.duplicate_rows;
      batch.warmup_rows = held.warmup_rows;
      batch.rows_per_expert = held.rows;
      batch.warmup_rows_per_expert = held.warmup;
      facts[layer].warmup_rows += held.warmup_rows;
      sink.batch(static_cast<int>(number++ % static_cast<std::size_t>(workers)), batch);
    }
    return facts;
  }

 private:
  dropless::TraceInfo info_;
  std::vector<MemoryBatch> batches_;
  std::int64_t dense_layer_ = -1;
};
