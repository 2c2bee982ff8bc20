// Records are checked, their layer's first identical rows set aside until it is known whether they are
// warm-up, and batches closed where the cut says.
#include "traces/log_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "traces/array_trace.hpp"
#include "traces/id_runs.hpp"
#include "traces/warmup_rows.hpp"

namespace dropless::traces {

struct LogBuilder::Layer {
  std::int64_t number = 0;
  bool started = false;
  bool batch_ended = false;  // the next record belongs to another batch
  std::int64_t step = 0;     // of the last record
  std::int64_t highest_step = -1;

  LoggedBatch batch;  // the open one
  bool open = false;
  std::vector<std::int64_t> rows;  // its rows by expert, as far as ids were seen

  // The rows that the layer starts with, for as long as they are identical: how many, batch by batch.
  struct RunPart {
    std::int64_t step = 0, rows = 0;
  };
  bool in_first_run = true;
  std::vector<std::int64_t> first_row;
  std::vector<RunPart> first_run;
  std::int64_t warmup_rows = 0;

  std::vector<std::int64_t> last_row;  // by expert: the last row that named it
  std::int64_t row_number = 0;
  bool repeats_one = true;
};

LogBuilder::LogBuilder(std::string path, const TraceOptions& options)
    : path_(std::move(path)),
      batch_tokens_(options.batch_tokens),
      stated_experts_(options.experts),
      stated_top_k_(options.top_k),
      drop_warmup_(options.drop_warmup),
      wanted_(options.layers),
      log_(path_) {
  for (const Axis axis : options.batch_axes)
    if (axis != Axis::step) throw Error("batch axes", axis_name(axis), "step or none, for a log");
  if (batch_tokens_ > 0 && !options.batch_axes.empty())
    throw Error("batch_tokens", std::to_string(batch_tokens_), "no batch axes beside it");
  if (batch_tokens_ > 0)
    cut_ = Cut::tokens;
  else if (options.batch_axes_given)
    cut_ = options.batch_axes.empty() ? Cut::layer : Cut::steps;
}

LogBuilder::~LogBuilder() = default;

bool LogBuilder::wants(std::int64_t layer) const {
  return wanted_.empty() || std::find(wanted_.begin(), wanted_.end(), layer) != wanted_.end();
}

LogBuilder::Layer& LogBuilder::layer_of(std::int64_t number) {
  if (last_layer_ != nullptr && last_layer_->number == number) return *last_layer_;
  auto& layer = layers_[number];
  if (!layer) {
    layer = std::make_unique<Layer>();
    layer->number = number;
  }
  last_layer_ = layer.get();
  return *last_layer_;
}

void LogBuilder::end_batch(std::int64_t layer) {
  if (cut_ == Cut::own_batches) layer_of(layer).batch_ended = true;
}

std::string LogBuilder::state_experts(std::int64_t experts) {
  if (experts < 1 || experts > most_experts)
    return fmt::format("num_experts is {}; 1 to {} are believed", experts, most_experts);
  if (experts < log_.experts || (log_.experts_complete && experts != log_.experts))
    return fmt::format("num_experts is {}, but the records name {} experts", experts, log_.experts);
  if (stated_experts_ > 0 && experts != stated_experts_)
    return fmt::format("num_experts is {}, but {} in a line before", experts, stated_experts_);
  stated_experts_ = experts;
  return "";
}

std::string LogBuilder::check(const LogRecord& record) {
  if (record.layer < 0) return fmt::format("the layer {} is negative", record.layer);
  if (record.step < 0) return fmt::format("the step {} is negative", record.step);
  if (any_record_ && record.counts != log_.counts) return "counts and expert ids in one log";
  if (record.tokens == 0) return "";
  const char* what = record.counts ? "counts" : "expert ids";
  std::int64_t& known = record.counts ? log_.experts : log_.top_k;
  if (record.columns < 1 || record.columns > most_experts)
    return fmt::format("{} {} in a row; 1 to {} are believed", record.columns, what, most_experts);
  if (!record.counts_end_early && known > 0 && record.columns != known)
    return fmt::format("{} {} in a row, after rows of {}", record.columns, what, known);
  if (!record.counts && stated_top_k_ > 0 && record.columns != stated_top_k_)
    return fmt::format("{} expert ids in a row, but top_k was stated as {}", record.columns, stated_top_k_);
  if (record.counts && !record.counts_end_early && stated_experts_ > 0 && record.columns != stated_experts_)
    return fmt::format("{} counts in a row, but {} experts were stated", record.columns, stated_experts_);
  if (record.counts && cut_ == Cut::tokens) return "counts cannot be cut into batches of tokens";
  known = std::max(known, record.columns);
  any_record_ = true;
  log_.counts = record.counts;
  log_.experts_complete = record.counts && !record.counts_end_early;
  return "";
}

std::string LogBuilder::try_add(const LogRecord& record) {
  std::string reason = check(record);
  if (!reason.empty()) return reason;
  Layer& layer = layer_of(record.layer);
  const bool ended = layer.batch_ended || (cut_ == Cut::steps && layer.step != record.step);
  layer.batch_ended = false;
  layer.step = record.step;
  log_.steps_again += ended && record.names_step && record.step <= layer.highest_step;
  layer.highest_step = std::max(layer.highest_step, record.step);
  layer.in_first_run = layer.in_first_run && !record.counts;
  if (layer.in_first_run) {
    if (!layer.started || ended) layer.first_run.push_back({record.step, 0});
  } else if (!layer.started || ended) {
    close_batch(layer);
    open_batch(layer, record.step);
  }
  layer.started = true;
  return record.counts ? add_counts(layer, record) : add_tokens(layer, record);
}

std::string LogBuilder::add_counts(Layer& layer, const LogRecord& record) {
  layer.rows.resize(std::max(layer.rows.size(), static_cast<std::size_t>(record.columns)), 0);
  for (std::int64_t i = 0; i < record.tokens * record.columns; ++i) {
    const std::int64_t count = record.numbers[i];
    if (count < 0) return fmt::format("the count {} is negative", count);
    if (count > most_rows) return fmt::format("the count {} is more than 2^53", count);
    std::int64_t& sum = layer.rows[static_cast<std::size_t>(i % record.columns)];
    sum = std::min(sum + count, most_rows + 1);  // BatchLog refuses what is larger
  }
  for (std::int64_t row = 0; row < record.tokens; ++row)
    running_sums_.add(layer.number, record.numbers + row * record.columns, record.columns);
  return "";
}

std::string LogBuilder::check_ids(const std::int64_t* ids, std::int64_t count) {
  const std::int64_t largest = *std::max_element(ids, ids + count);
  if (stated_experts_ > 0 && largest >= stated_experts_) return no_such_expert(largest, stated_experts_);
  if (largest >= most_experts)
    return fmt::format("expert id {}; ids below {} are believed", largest, most_experts);
  log_.experts = std::max(log_.experts, largest + 1);
  return "";
}

std::string LogBuilder::add_tokens(Layer& layer, const LogRecord& record) {
  if (record.tokens == 0) return "";
  std::string reason = check_ids(record.numbers, record.tokens * record.columns);
  if (!reason.empty()) return reason;
  const auto needed = static_cast<std::size_t>(log_.experts);
  if (layer.rows.size() < needed) {
    layer.rows.resize(needed, 0);
    layer.last_row.resize(needed, 0);
  }
  for (std::int64_t token = 0; token < record.tokens; ++token) {
    const std::int64_t* ids = record.numbers + token * record.columns;
    if (layer.in_first_run) {
      if (layer.first_row.empty()) layer.first_row.assign(ids, ids + record.columns);
      if (std::equal(layer.first_row.begin(), layer.first_row.end(), ids)) {
        ++layer.first_run.back().rows;
        continue;
      }
      end_first_run(layer, true);
    }
    add_row(layer, ids, 1, false);
  }
  return "";
}

void LogBuilder::end_first_run(Layer& layer, bool more_rows) {
  layer.in_first_run = false;
  std::int64_t run_rows = 0;
  for (const Layer::RunPart& part : layer.first_run) run_rows += part.rows;
  const bool warmup = more_rows && run_rows >= least_warmup_rows;
  if (warmup) layer.warmup_rows = run_rows;
  for (const Layer::RunPart& part : layer.first_run) {
    if (warmup && drop_warmup_) continue;
    if (cut_ != Cut::tokens) {
      close_batch(layer);
      open_batch(layer, part.step);
    }
    add_row(layer, layer.first_row.data(), part.rows, warmup);
  }
  if (!layer.open) open_batch(layer, layer.first_run.back().step);
  layer.first_run = {};
}

void LogBuilder::add_row(Layer& layer, const std::int64_t* ids, std::int64_t times, bool warmup) {
  const std::int64_t top_k = log_.top_k;
  while (times > 0) {
    if (!layer.open) open_batch(layer, layer.step);
    LoggedBatch& batch = layer.batch;
    const std::int64_t some = cut_ == Cut::tokens ? std::min(times, batch_tokens_ - batch.tokens) : times;
    ++layer.row_number;
    bool duplicate = false, repeats_one = true;
    for (std::int64_t slot = 0; slot < top_k; ++slot) {
      repeats_one &= ids[slot] == ids[0];
      if (ids[slot] < 0) {
        batch.unrouted += some;
        continue;
      }
      const auto expert = static_cast<std::size_t>(ids[slot]);
      duplicate |= layer.last_row[expert] == layer.row_number;
      layer.last_row[expert] = layer.row_number;
      layer.rows[expert] += some;
    }
    layer.repeats_one &= repeats_one;
    batch.tokens += some;
    batch.duplicate_rows += duplicate ? some : 0;
    batch.warmup_rows += warmup ? some : 0;
    times -= some;
    if (cut_ == Cut::tokens && batch.tokens == batch_tokens_) close_batch(layer);
  }
}

void LogBuilder::open_batch(Layer& layer, std::int64_t step) {
  layer.open = true;
  layer.batch = LoggedBatch{};
  layer.batch.layer = layer.number;
  layer.batch.step = step;
}

void LogBuilder::close_batch(Layer& layer) {
  if (!layer.open) return;
  layer.open = false;
  for (std::size_t expert = 0; expert < layer.rows.size(); ++expert) {
    if (layer.rows[expert] == 0) continue;
    layer.batch.rows.emplace_back(expert, layer.rows[expert]);
    layer.rows[expert] = 0;
  }
  if (layer.batch.warmup_rows > 0) {
    std::map<std::int64_t, std::int64_t> warmup;
    for (const std::int64_t id : layer.first_row)
      if (id >= 0) warmup[id] += layer.batch.warmup_rows;
    layer.batch.warmup.assign(warmup.begin(), warmup.end());
  }
  log_.add(std::move(layer.batch));
}

BatchLog LogBuilder::finish() {
  for (auto& [number, layer] : layers_) {
    if (!layer->started) continue;
    if (layer->in_first_run) end_first_run(*layer, false);
    if (cut_ != Cut::tokens || layer->batch.tokens > 0) close_batch(*layer);
    LoggedLayer& logged = log_.layers[number];
    logged.warmup_rows = layer->warmup_rows;
    logged.repeats_one = layer->repeats_one && !log_.counts;
  }
  log_.running_sums = running_sums_.found();
  return std::move(log_);
}

}  // namespace dropless::traces
