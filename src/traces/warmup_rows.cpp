#include "traces/warmup_rows.hpp"

#include <algorithm>
#include <cstring>
#include <set>

namespace dropless::traces {
namespace {

constexpr std::int64_t first_tokens = 1024;
constexpr std::int64_t block_bytes = 1 << 20;

std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

/// One layer's run of rows like its first.
struct Run {
  std::int64_t layer = 0;
  bool running = true;
  std::vector<std::byte> first_row;
  WarmupRows* rows = nullptr;
};

/// Reads on through the tokens of some layers until none of them repeats its first row.
class RunReader {
 public:
  RunReader(const BatchedArray& array, std::vector<Run> runs) : array_(array), runs_(std::move(runs)) {}

  void read() {
    const std::int64_t tokens = array_.layer_tokens();
    Box box = array_.boxes.whole();
    if (array_.plan.layer >= 0) {
      box.begin[at(array_.plan.layer)] = runs_.front().layer;
      box.end[at(array_.plan.layer)] = runs_.back().layer + 1;
    }
    const std::int64_t token_bytes = array_.boxes.array().number.bytes * array_.extent(array_.plan.row) *
                                     (array_.plan.layer < 0 ? 1 : box.length(array_.plan.layer));
    std::int64_t step = first_tokens;
    for (std::int64_t token = 0; token < tokens && any_running(); token += step) {
      if (token > 0) step = std::max<std::int64_t>(1, block_bytes / token_bytes);
      for (const Box& part : boxes_of_range(box, array_.token_axes, token, std::min(token + step, tokens)))
        compare(part);
    }
    for (Run& run : runs_) {
      WarmupRows& rows = *run.rows;
      if (run.running || rows.tokens < least_warmup_rows)
        rows = WarmupRows{};
      else if (array_.batch_tokens == 0)
        find_batches(rows);
    }
  }

 private:
  bool any_running() const {
    return std::any_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.running; });
  }

  void find_batches(WarmupRows& rows) const {
    for (const Box& part : boxes_of_range(array_.boxes.whole(), array_.token_axes, 0, rows.tokens))
      for_each_index(part, array_.token_axes, [&](const std::vector<std::int64_t>& index) {
        std::int64_t batch = 0;
        for (const int axis : array_.plan.batch) batch = batch * array_.extent(axis) + index[at(axis)];
        ++rows.tokens_of_batch[batch];
      });
  }

  void compare(const Box& box) {
    array_.boxes.read(box, numbers_);
    for (Run& run : runs_) {
      if (!run.running) continue;
      const std::int64_t layer_offset =
          array_.plan.layer < 0 ? 0
                                : (run.layer - box.begin[at(array_.plan.layer)]) * stride(array_.plan.layer);
      bool stopped = false;
      for_each_index(box, array_.token_axes, [&](const std::vector<std::int64_t>& index) {
        if (stopped) return;
        std::int64_t offset = layer_offset;
        for (const int axis : array_.token_axes)
          offset += (index[at(axis)] - box.begin[at(axis)]) * stride(axis);
        stopped = !continue_run(run, offset);
      });
      run.running = !stopped;
    }
  }

  /// Whether the row at `offset` in the buffer is like the run's first.
  bool continue_run(Run& run, std::int64_t offset) {
    const NumberFormat& format = array_.boxes.array().number;
    const std::int64_t columns = array_.extent(array_.plan.row);
    const std::int64_t column_stride = array_.plan.row < 0 ? 1 : stride(array_.plan.row);
    const auto number = [&](std::int64_t column) {
      return numbers_.bytes.data() + (offset + column * column_stride) * format.bytes;
    };
    if (run.first_row.empty()) {
      for (std::int64_t column = 0; column < columns; ++column)
        run.first_row.insert(run.first_row.end(), number(column), number(column) + format.bytes);
      run.rows->row.resize(static_cast<std::size_t>(columns));
      // A number that is no id is reported when the rows are counted.
      read_integers(format, {number(0), 1, 0, columns, column_stride}, run.rows->row.data());
    }
    for (std::int64_t column = 0; column < columns; ++column)
      if (std::memcmp(number(column), run.first_row.data() + column * format.bytes,
                      static_cast<std::size_t>(format.bytes)) != 0)
        return false;
    ++run.rows->tokens;
    return true;
  }

  std::int64_t stride(int axis) const { return numbers_.strides[at(axis)]; }

  const BatchedArray& array_;
  std::vector<Run> runs_;
  BoxNumbers numbers_;
};

}  // namespace

std::int64_t WarmupRows::in_batch(std::int64_t batch, std::int64_t batch_tokens) const {
  if (batch_tokens > 0)
    return batch > tokens / batch_tokens ? 0 : std::min(tokens - batch * batch_tokens, batch_tokens);
  const auto found = tokens_of_batch.find(batch);
  return found == tokens_of_batch.end() ? 0 : found->second;
}

bool WarmupRows::repeats_an_expert() const {
  std::set<std::int64_t> seen;
  return std::any_of(row.begin(), row.end(),
                     [&](std::int64_t id) { return id >= 0 && !seen.insert(id).second; });
}

std::int64_t WarmupRows::unrouted_per_token() const {
  return std::count_if(row.begin(), row.end(), [](std::int64_t id) { return id < 0; });
}

std::vector<WarmupRows> find_warmup(const BatchedArray& array, std::int64_t selected_layers) {
  std::vector<WarmupRows> rows(static_cast<std::size_t>(selected_layers));
  if (box_size(array.boxes.whole()) == 0 || array.layer_tokens() < least_warmup_rows) return rows;
  std::vector<Run> together;
  for (std::int64_t layer = 0; layer < array.extent(array.plan.layer); ++layer) {
    const std::int64_t selected = array.selected[static_cast<std::size_t>(layer)];
    if (selected < 0) continue;
    together.push_back({layer, true, {}, &rows[static_cast<std::size_t>(selected)]});
    if (array.layer_is_outermost()) {
      RunReader(array, std::move(together)).read();
      together.clear();
    }
  }
  if (!together.empty()) RunReader(array, std::move(together)).read();
  return rows;
}

}  // namespace dropless::traces
