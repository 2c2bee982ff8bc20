// Delivering the batches of an array.
//
// Units of work (array_units.hpp) go to the workers in turn. Where there are too few of them to keep the
// workers busy, the workers share each unit by its tokens and their counts are added. A unit's batches are
// counted side by side; but where a sink asks for rows of batches, which may be long, each batch is delivered
// as soon as it is counted, and what workers share are whole rows.
#include "traces/array_reading.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>

#include "traces/axis_index.hpp"
#include "traces/batch_log.hpp"
#include "traces/id_runs.hpp"
#include "traces/open_batches.hpp"
#include "traces/warmup_rows.hpp"
#include "traces/workers.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t block_bytes = 256 << 10;
constexpr std::size_t least_units_a_worker = 4;
constexpr std::int64_t most_alike_tokens = 512;  // looked at together; one that is not alike parts them all

/// What one worker learns of a layer.
struct LayerSums {
  std::int64_t tokens = 0, unrouted = 0, duplicate_rows = 0;
  bool has_rows = false;
  bool repeats_one = true;

  void add(const LayerSums& other) {
    tokens += other.tokens;
    unrouted += other.unrouted;
    duplicate_rows += other.duplicate_rows;
    has_rows |= other.has_rows;
    repeats_one &= other.repeats_one;
  }
};

/// One call of read().
class Reading {
 public:
  Reading(const OpenedArray& trace, BatchSink& sink, int workers, Progress progress, void* context)
      : trace_(trace),
        array_(trace.array),
        sink_(sink),
        workers_(workers),
        progress_(progress),
        context_(context),
        batches_in_a_row_(array_.batch_tokens > 0 ? sink.batches_in_a_row() : 1),
        by_rows_(batches_in_a_row_ > 1 && array_.tokens_in_file_order()),
        most_token_batches_(sink.most_token_batches()),
        token_batches_(array_.batch_tokens == 1 && most_token_batches_ > 0 &&
                       (by_rows_ || batches_in_a_row_ == 1)) {
    layers_ = static_cast<std::int64_t>(trace.info.layers.size());
    warmup_.resize(trace.info.layers.size());
    sums_.assign(static_cast<std::size_t>(workers), std::vector<LayerSums>(trace.info.layers.size()));
    total_bytes_ = box_size(array_.boxes.whole()) * array_.boxes.array().number.bytes;
  }

  std::vector<LayerFacts> run() {
    if (!array_.plan.counts) warmup_ = find_warmup(array_, layers_);
    std::vector<std::int64_t> skipped;
    if (trace_.drop_warmup)
      for (const WarmupRows& rows : warmup_) skipped.push_back(rows.tokens);
    const std::vector<Unit> units = make_units(array_, workers_, skipped, by_rows_ ? batches_in_a_row_ : 1);
    // Rows of batches that do not follow one another in the file are counted together, unit after unit.
    const bool apart = by_rows_ || batches_in_a_row_ == 1;
    if (apart && units.size() >= least_units_a_worker * static_cast<std::size_t>(workers_))
      run_workers(workers_, [&](int worker) {
        OpenBatches open;
        for (auto i = static_cast<std::size_t>(worker); i < units.size();
             i += static_cast<std::size_t>(workers_)) {
          count_part(units[i], worker, 0, 1, open);
          deliver(units[i], open, worker);
        }
      });
    else
      for (const Unit& unit : units) {
        std::vector<OpenBatches> open(static_cast<std::size_t>(workers_));
        run_workers(workers_, [&](int worker) {
          OpenBatches& part = open[static_cast<std::size_t>(worker)];
          count_part(unit, worker, worker, workers_, part);
          if (by_rows_) deliver(unit, part, worker);
        });
        if (by_rows_) continue;
        for (std::size_t i = 1; i < open.size(); ++i) open[0].add(open[i]);
        deliver(unit, open[0], 0);
      }
    if (progress_) progress_(1, context_);
    return facts();
  }

 private:
  std::int64_t unit_layers(const Unit& unit) const {
    return array_.plan.layer < 0 ? 1 : unit.box.length(array_.plan.layer);
  }

  std::int64_t unit_batches(const Unit& unit) const {
    if (array_.batch_tokens > 0) return unit.last_batch - unit.first_batch;
    std::int64_t batches = 1;
    for (const int axis : array_.plan.batch) batches *= unit.box.length(axis);
    return batches;
  }

  void count_part(const Unit& unit, int worker, int part, int parts, OpenBatches& open) {
    open.reset(unit_layers(unit) * (by_rows_ || token_batches_ ? 1 : unit_batches(unit)), array_.experts);
    BoxNumbers numbers;
    const std::int64_t tokens_in_a_row = by_rows_ ? batches_in_a_row_ * array_.batch_tokens : 1;
    try {
      for (const Box& box : boxes_of(array_, unit, part, parts, tokens_in_a_row))
        array_.boxes.for_each_block(box, array_.plan.row, block_bytes, [&](const Box& block) {
          if (failed_) return;
          array_.boxes.read(block, numbers);
          count_block(unit, block, numbers, open, worker);
          report_progress(worker, static_cast<std::int64_t>(numbers.bytes.size()));
        });
    } catch (...) {
      failed_ = true;
      throw;
    }
  }

  void report_progress(int worker, std::int64_t bytes) {
    const std::int64_t done = done_bytes_.fetch_add(bytes) + bytes;
    if (worker == 0 && progress_)
      progress_(static_cast<double>(done) / static_cast<double>(total_bytes_), context_);
  }

  /// Counts a block run by run: a run goes along the innermost axis that stays within a batch.
  void count_block(const Unit& unit, const Box& block, const BoxNumbers& numbers, OpenBatches& open,
                   int worker) {
    const AxisPlan& plan = array_.plan;
    int run_axis = -1;
    for (const int axis : plan.within)
      if (run_axis < 0 || numbers.strides[at(axis)] < numbers.strides[at(run_axis)]) run_axis = axis;
    std::vector<int> outer;
    for (int axis = 0; axis < array_.boxes.axes(); ++axis)
      if (axis != plan.row && axis != run_axis) outer.push_back(axis);

    NumberTable table;
    table.columns = array_.extent(plan.row);
    table.column_stride = plan.row < 0 ? 1 : numbers.strides[at(plan.row)];
    table.row_stride = run_axis < 0 ? 1 : numbers.strides[at(run_axis)];
    const std::int64_t run_tokens = run_axis < 0 ? 1 : block.length(run_axis);
    const std::int64_t number_bytes = array_.boxes.array().number.bytes;
    for_each_index(block, outer, [&](std::vector<std::int64_t> index) {
      const std::int64_t file_layer = plan.layer < 0 ? 0 : index[at(plan.layer)];
      const std::int64_t selected = array_.selected[static_cast<std::size_t>(file_layer)];
      if (selected < 0) return;
      const std::int64_t unit_layer = plan.layer < 0 ? 0 : file_layer - unit.box.begin[at(plan.layer)];
      std::int64_t offset = 0;
      for (const int axis : outer)
        offset += (index[at(axis)] - block.begin[at(axis)]) * numbers.strides[at(axis)];
      table.first = numbers.bytes.data() + offset * number_bytes;
      for (std::int64_t done = 0; done < run_tokens; done += table.rows) {
        if (run_axis >= 0) index[at(run_axis)] = block.begin[at(run_axis)] + done;
        if (token_batches_) {
          const std::int64_t number = token_number(unit, index);
          const std::int64_t past = by_rows_ ? number % most_token_batches_ : 0;
          table.rows = std::min({run_tokens - done, most_alike_tokens, most_token_batches_ - past});
          count_tokens(unit, table, index, run_axis, number, selected, open, worker);
        } else {
          const auto [batch, tokens] = batch_at(unit, index, run_axis, run_tokens - done);
          table.rows = tokens;
          const std::int64_t number = unit.first_batch + batch;
          const auto slot =
              static_cast<std::size_t>(by_rows_ ? unit_layer : unit_layer * unit_batches(unit) + batch);
          if (by_rows_ && open.number[slot] != number) {
            deliver_slot(open, slot, selected, worker);
            open.number[slot] = number;
          }
          count_run(table, index, run_axis, slot, open, sums_of(worker, selected));
        }
        table.first += table.rows * table.row_stride * number_bytes;
      }
    });
  }

  /// Within its layer, from the first one that is not skipped.
  std::int64_t token_number(const Unit& unit, const std::vector<std::int64_t>& index) const {
    std::int64_t token = 0;
    for (const int axis : array_.token_axes) token = token * array_.extent(axis) + index[at(axis)];
    return token - unit.skipped_tokens;
  }

  struct BatchRun {
    std::int64_t batch, tokens;
  };

  /// The batch (within the unit) of the token at `index`, and how many of the next `most` along the run axis
  /// belong to it.
  BatchRun batch_at(const Unit& unit, const std::vector<std::int64_t>& index, int run_axis,
                    std::int64_t most) const {
    std::int64_t batch = 0;
    if (array_.batch_tokens == 0) {
      for (const int axis : array_.plan.batch)
        batch = batch * unit.box.length(axis) + index[at(axis)] - unit.box.begin[at(axis)];
      return {batch, most};
    }
    std::int64_t step = 1;
    for (const int axis : array_.token_axes) step = axis == run_axis ? 1 : step * array_.extent(axis);
    const std::int64_t token = token_number(unit, index);
    batch = token / array_.batch_tokens;
    const std::int64_t left = (batch + 1) * array_.batch_tokens - token;
    return {batch - unit.first_batch, std::min(most, (left + step - 1) / step)};
  }

  /// Takes a run of tokens that are a batch each, the first of them batch `number`: together where they are
  /// alike, else one after another.
  void count_tokens(const Unit& unit, NumberTable tokens, std::vector<std::int64_t> index, int run_axis,
                    std::int64_t number, std::int64_t selected, OpenBatches& open, int worker) {
    const NumberFormat& format = array_.boxes.array().number;
    const std::int64_t warm = trace_.drop_warmup ? 0 : warmup_[static_cast<std::size_t>(selected)].tokens;
    if (number >= warm && open.alike.count(format, tokens, array_.experts)) {
      LayerSums& sums = sums_of(worker, selected);
      sums.tokens += tokens.rows;
      sums.has_rows = true;
      sums.repeats_one &= tokens.columns == 1;
      sink_.token_batches(worker, {trace_.info.layers[static_cast<std::size_t>(selected)], number,
                                   tokens.rows, open.alike.rows_per_expert, open.alike.lowest_expert});
      return;
    }
    const std::int64_t count = tokens.rows;
    tokens.rows = 1;
    for (std::int64_t i = 0; i < count; ++i) {
      open.clear(0);
      count_run(tokens, index, run_axis, 0, open, sums_of(worker, selected));
      deliver_batch(open, 0, selected, token_number(unit, index), worker);
      tokens.first += tokens.row_stride * format.bytes;
      if (run_axis >= 0) ++index[at(run_axis)];
    }
  }

  void count_run(const NumberTable& table, const std::vector<std::int64_t>& index, int run_axis,
                 std::size_t batch, OpenBatches& open, LayerSums& sums) const {
    const NumberFormat& format = array_.boxes.array().number;
    BadNumber bad;
    if (array_.plan.counts) {
      add_counts(format, table, open.rows_of(batch).data(), bad);
    } else {
      const RunFacts facts = count_ids(format, table, array_.experts, open.rows_of(batch).data(), bad);
      open.tokens[batch] += table.rows;
      open.unrouted[batch] += facts.unrouted;
      open.duplicate_rows[batch] += facts.duplicate_rows;
      sums.repeats_one &= facts.repeats_one;
    }
    if (bad.index < 0) return;
    std::vector<std::int64_t> place = index;
    if (run_axis >= 0) place[at(run_axis)] += bad.index / table.columns;
    if (array_.plan.row >= 0) place[at(array_.plan.row)] = bad.index % table.columns;
    trace_.refuse(place, bad.reason);
  }

  LayerSums& sums_of(int worker, std::int64_t selected) {
    return sums_[static_cast<std::size_t>(worker)][static_cast<std::size_t>(selected)];
  }

  /// What of a unit is still open.
  void deliver(const Unit& unit, OpenBatches& open, int worker) {
    if (failed_ || token_batches_) return;  // count_tokens() delivered them
    const std::int64_t batches = unit_batches(unit);
    for (std::int64_t layer = 0; layer < unit_layers(unit); ++layer) {
      const std::int64_t file_layer =
          array_.plan.layer < 0 ? 0 : unit.box.begin[at(array_.plan.layer)] + layer;
      const std::int64_t selected = array_.selected[static_cast<std::size_t>(file_layer)];
      if (selected < 0) continue;
      if (by_rows_) {
        deliver_slot(open, static_cast<std::size_t>(layer), selected, worker);
        continue;
      }
      std::int64_t batch = 0;
      const auto next = [&](std::int64_t index) {
        deliver_batch(open, static_cast<std::size_t>(layer * batches + batch++), selected, index, worker);
      };
      if (array_.batch_tokens > 0)
        for (std::int64_t index = unit.first_batch; index < unit.last_batch; ++index) next(index);
      else
        for_each_index(unit.box, array_.plan.batch, [&](const std::vector<std::int64_t>& index) {
          std::int64_t number = 0;
          for (const int axis : array_.plan.batch) number = number * array_.extent(axis) + index[at(axis)];
          next(number);
        });
    }
  }

  /// Makes room for another batch.
  void deliver_slot(OpenBatches& open, std::size_t slot, std::int64_t selected, int worker) {
    if (open.number[slot] < 0) return;
    deliver_batch(open, slot, selected, open.number[slot], worker);
    open.clear(slot);
  }

  void deliver_batch(OpenBatches& open, std::size_t slot, std::int64_t selected, std::int64_t index,
                     int worker) {
    const WarmupRows& warmup = warmup_[static_cast<std::size_t>(selected)];
    const bool cut_off = trace_.drop_warmup && array_.batch_tokens > 0;  // its tokens were never counted
    const std::int64_t warm = warmup.tokens == 0 || cut_off ? 0 : warmup.in_batch(index, array_.batch_tokens);
    const ArrayView<std::int64_t> rows = open.rows_of(slot);
    Batch batch;
    batch.layer = trace_.info.layers[static_cast<std::size_t>(selected)];
    batch.index = index;
    batch.tokens = open.tokens[slot];
    batch.unrouted = open.unrouted[slot];
    batch.duplicate_rows = open.duplicate_rows[slot];
    batch.rows_per_expert = {rows.data(), rows.size()};
    std::vector<std::int64_t> warm_rows;
    if (warm > 0) {
      warm_rows.assign(rows.size(), 0);
      for (const std::int64_t id : warmup.row)
        if (id >= 0) warm_rows[static_cast<std::size_t>(id)] += warm;
      if (trace_.drop_warmup) {
        std::transform(rows.begin(), rows.end(), warm_rows.begin(), rows.begin(), std::minus<>());
        batch.tokens -= warm;
        batch.unrouted -= warm * warmup.unrouted_per_token();
        batch.duplicate_rows -= warmup.repeats_an_expert() ? warm : 0;
        if (batch.tokens == 0) return;
      } else {
        batch.warmup_rows = warm;
        batch.warmup_rows_per_expert = warm_rows;
      }
    }
    std::int64_t assignments = batch.tokens * trace_.info.top_k - batch.unrouted;
    if (array_.plan.counts) {
      assignments = 0;
      for (const std::int64_t of_expert : rows) {
        assignments += std::min(of_expert, most_rows + 1);
        if (assignments > most_rows) refuse_rows();
      }
      if (total_rows_.fetch_add(assignments) + assignments > most_rows) refuse_rows();
      if (trace_.info.top_k > 0) batch.tokens = assignments / trace_.info.top_k;
    }
    LayerSums sums;
    sums.tokens = batch.tokens;
    sums.unrouted = batch.unrouted;
    sums.duplicate_rows = batch.duplicate_rows;
    sums.has_rows = assignments > 0;
    sums_of(worker, selected).add(sums);
    sink_.batch(worker, batch);
  }

  [[noreturn]] void refuse_rows() const {
    throw FileError(trace_.origin.path, trace_.origin.place, "the counts add up to more than 2^53 rows");
  }

  std::vector<LayerFacts> facts() const {
    std::vector<LayerFacts> facts;
    for (std::size_t layer = 0; layer < warmup_.size(); ++layer) {
      LayerSums sums;
      for (const auto& of_worker : sums_) sums.add(of_worker[layer]);
      LayerFacts of_layer;
      of_layer.layer = trace_.info.layers[layer];
      of_layer.tokens = sums.tokens;
      of_layer.warmup_rows = warmup_[layer].tokens;
      of_layer.duplicate_rows = sums.duplicate_rows;
      of_layer.unrouted = sums.unrouted;
      const bool repeats_one = !array_.plan.counts && trace_.info.top_k > 1 && sums.repeats_one;
      of_layer.dense = total_bytes_ > 0 && (!sums.has_rows || repeats_one);
      facts.push_back(of_layer);
    }
    return facts;
  }

  const OpenedArray& trace_;
  const BatchedArray& array_;
  BatchSink& sink_;
  int workers_;
  Progress progress_;
  void* context_;
  std::int64_t batches_in_a_row_;
  bool by_rows_;  // a layer has one batch open at a time
  std::int64_t most_token_batches_;
  bool token_batches_;
  std::int64_t layers_ = 0;
  std::vector<WarmupRows> warmup_;            // by selected layer
  std::vector<std::vector<LayerSums>> sums_;  // by worker and selected layer
  std::int64_t total_bytes_ = 0;
  std::atomic<std::int64_t> total_rows_ = 0;
  std::atomic<std::int64_t> done_bytes_ = 0;
  std::atomic<bool> failed_ = false;
};

}  // namespace

void OpenedArray::refuse(const std::vector<std::int64_t>& index, const std::string& reason) const {
  throw FileError(
      origin.path,
      fmt::format("{}{}element [{}]", origin.place, origin.place.empty() ? "" : ": ", fmt::join(index, ", ")),
      reason);
}

std::vector<LayerFacts> read_array(const OpenedArray& opened, BatchSink& sink, int workers, Progress progress,
                                   void* context) {
  return Reading(opened, sink, workers, progress, context).run();
}

}  // namespace dropless::traces
