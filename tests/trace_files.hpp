// Small trace files for tests: .npy bytes, and a sink that keeps every batch.
#pragma once
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "dropless/trace.hpp"
#include "temporary_folder.hpp"

/// The bytes of numbers as they lie in memory.
template <class T>
std::string raw_bytes(const std::vector<T>& numbers) {
  std::string bytes(numbers.size() * sizeof(T), '\0');
  if (!numbers.empty()) std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

/// A .npy file, version 1, with the given header values and body.
inline std::string npy_bytes(const std::string& type, const std::string& shape, const std::string& body,
                             bool fortran_order = false) {
  const std::string header = "{'descr': '" + type +
                             "', 'fortran_order': " + (fortran_order ? "True" : "False") +
                             ", 'shape': " + shape + ", }\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + body;
}

/// A batch as it was delivered.
struct KeptBatch {
  std::int64_t tokens = 0, unrouted = 0, duplicate_rows = 0, warmup_rows = 0;
  std::vector<std::int64_t> rows, warmup;
};

/// Everything that a trace says.
struct KeptTrace {
  dropless::TraceInfo info;
  std::map<std::pair<std::int64_t, std::int64_t>, KeptBatch> batches;  ///< by layer and index
  std::vector<dropless::LayerFacts> layers;

  std::vector<std::int64_t> rows(std::int64_t layer, std::int64_t index) const {
    return batches.at({layer, index}).rows;
  }
};

inline KeptTrace keep_trace(const std::string& path, const dropless::TraceOptions& options = {},
                            int workers = 2) {
  class Sink : public dropless::BatchSink {
   public:
    explicit Sink(KeptTrace& kept) : kept_(kept) {}
    void batch(int, const dropless::Batch& batch) override {
      const std::lock_guard guard(mutex_);
      const KeptBatch copy{batch.tokens,
                           batch.unrouted,
                           batch.duplicate_rows,
                           batch.warmup_rows,
                           {batch.rows_per_expert.begin(), batch.rows_per_expert.end()},
                           {batch.warmup_rows_per_expert.begin(), batch.warmup_rows_per_expert.end()}};
      if (!kept_.batches.emplace(std::pair(batch.layer, batch.index), copy).second)
        throw std::runtime_error("a batch was delivered twice");
    }

   private:
    KeptTrace& kept_;
    std::mutex mutex_;
  };
  const auto trace = dropless::open_trace(path, options);
  KeptTrace kept;
  Sink sink(kept);
  kept.info = trace->info();
  kept.layers = trace->read(sink, workers);
  return kept;
}

/// Of a file of that name, whose ending may tell its format, with that content.
inline KeptTrace keep_text(const std::string& name, const std::string& text,
                           const dropless::TraceOptions& options = {}) {
  static const TemporaryFolder folder;
  return keep_trace(folder.write(name, text), options);
}
