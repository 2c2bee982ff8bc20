// Turns the records of a log, in the order in which they stand there, into batches.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "traces/batch_log.hpp"
#include "traces/running_sums.hpp"

namespace dropless::traces {

/// Tokens' expert ids, row-major, or (counts) one row of counts per expert.
struct LogRecord {
  std::int64_t layer = 0;
  std::int64_t step = 0;
  bool names_step = false;  ///< the log says the step
  const std::int64_t* numbers = nullptr;
  std::int64_t tokens = 1;
  std::int64_t columns = 0;  ///< top_k, or experts
  bool counts = false;
  bool counts_end_early = false;  ///< experts past the columns have no rows, so columns may differ
};

class LogBuilder {
 public:
  /// Batches are the log's own (end_batch), its steps, everything in a layer, or `batch_tokens` tokens, as
  /// the options say. Throws Error for batch axes that a log does not have.
  LogBuilder(std::string path, const TraceOptions& options);
  ~LogBuilder();

  /// Whether the options select the layer; records of others may be left out.
  bool wants(std::int64_t layer) const;
  /// Throws FileError where the record is no such thing; `place()` says where it stands ("line 3").
  template <class Place>
  void add(const LogRecord& record, const Place& place) {
    const std::string reason = try_add(record);
    if (!reason.empty()) throw FileError(path_, place(), reason);
  }
  /// The log says how many experts there are, and the options do not. Returns why that cannot be, or nothing.
  std::string state_experts(std::int64_t experts);
  /// The layer's next record belongs to another of the log's own batches.
  void end_batch(std::int64_t layer);

  BatchLog finish();

 private:
  enum class Cut { own_batches, steps, tokens, layer };
  struct Layer;

  std::string try_add(const LogRecord& record);
  std::string check(const LogRecord& record);
  std::string add_counts(Layer& layer, const LogRecord& record);
  std::string add_tokens(Layer& layer, const LogRecord& record);
  std::string check_ids(const std::int64_t* ids, std::int64_t count);
  void add_row(Layer& layer, const std::int64_t* ids, std::int64_t times, bool warmup);
  void end_first_run(Layer& layer, bool more_rows);
  void open_batch(Layer& layer, std::int64_t step);
  void close_batch(Layer& layer);
  Layer& layer_of(std::int64_t number);

  std::string path_;
  Cut cut_ = Cut::own_batches;
  std::int64_t batch_tokens_ = 0;
  std::int64_t stated_experts_ = 0;  // by the options, else by the log
  std::int64_t stated_top_k_ = 0;
  bool drop_warmup_ = false;
  bool any_record_ = false;
  std::vector<std::int64_t> wanted_;
  std::map<std::int64_t, std::unique_ptr<Layer>> layers_;
  Layer* last_layer_ = nullptr;
  RunningSums running_sums_;
  BatchLog log_;
};

}  // namespace dropless::traces
