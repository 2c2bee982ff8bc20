// The batches of a log, as its reader found them: parsed once, kept compactly, and delivered as often as
// asked.
//
// Text logs say nothing of themselves in front: how many experts and layers there are, and where a layer's
// warm-up ends, is known at their end. So a log is read through when it is opened. What is kept of it are the
// batches' non-zero counts, in a few bytes each, in memory or in a temporary file.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dropless/trace.hpp"
#include "traces/byte_source.hpp"

namespace dropless::traces {

/// Most rows that a whole trace may have: below it no sum, and no product with a small number, can wrap.
inline constexpr std::int64_t most_rows = std::int64_t{1} << 53;

/// (expert, rows) of the experts that have any.
using SparseRows = std::vector<std::pair<std::int64_t, std::int64_t>>;

struct LoggedBatch {
  std::int64_t layer = 0;
  std::int64_t step = 0;   ///< what the log calls it; ranks' batches of one step belong together
  std::int64_t index = 0;  ///< within the layer; given by BatchLog::add
  std::int64_t tokens = 0, unrouted = 0, duplicate_rows = 0, warmup_rows = 0;
  SparseRows rows, warmup;
};

struct LoggedLayer {
  std::int64_t batches = 0;
  std::int64_t tokens = 0, unrouted = 0, duplicate_rows = 0, warmup_rows = 0;
  bool has_rows = false;
  bool repeats_one = true;  ///< every token named one expert top_k times
};

class BatchLog {
 public:
  explicit BatchLog(const std::string& path) : path_(path), bytes_(std::make_unique<SpilledBytes>(path)) {}

  /// Throws FileError where all batches together have more than most_rows.
  void add(LoggedBatch batch);
  /// Calls `use` with the batches that fall to one of `workers` workers; each takes `in_a_row` of a layer at
  /// a time.
  void replay(int worker, int workers, std::int64_t in_a_row,
              const std::function<void(const LoggedBatch&)>& use) const;

  std::map<std::int64_t, LoggedLayer> layers;
  std::int64_t experts = 0;       ///< largest id seen + 1, or the length of the counts
  bool experts_complete = false;  ///< the log's rows name every expert: counts with a place for each
  std::int64_t top_k = 0;         ///< 0: counts
  bool counts = false;
  bool running_sums = false;     ///< the counts look like sums over all records before
  std::int64_t steps_again = 0;  ///< batches whose step is not above the earlier ones of their layer

 private:
  std::string path_;
  std::int64_t total_rows_ = 0;
  std::unique_ptr<SpilledBytes> bytes_;
  std::vector<unsigned char> encoded_;
};

/// The sum of ranks' logs.
struct RankSum {
  BatchLog log;
  std::int64_t batches = 0;
  std::int64_t summed_batches = 0;  ///< that more than one rank has
  /// That fewer ranks have than have the layer of most ranks: in a pipeline each rank has layers of its own.
  std::int64_t incomplete_batches = 0;
};

/// Sums batches of the same layer, step and place within the step.
RankSum sum_ranks(const std::string& path, const std::vector<BatchLog>& ranks);

/// A trace of the log's batches. `info` brings path, format, top_k (where stated), cumulative and
/// assumptions; the options' experts, top_k and layers are checked against the log.
std::unique_ptr<Trace> open_log_trace(BatchLog log, TraceInfo info, const TraceOptions& options);

}  // namespace dropless::traces
