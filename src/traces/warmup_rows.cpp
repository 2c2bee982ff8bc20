// Layers are read together, in the file's order, until none of them repeats its first row.
#include "traces/warmup_rows.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include "traces/axis_index.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t first_tokens = 1024;
constexpr std::int64_t compared_bytes = 1 << 20;

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
      if (token > 0) step = std::max<std::int64_t>(1, compared_bytes / token_bytes);
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
    std::int64_t tokens = 1;
    for (const int axis : array_.token_axes) tokens *= box.length(axis);
    const std::int64_t step = token_step(box);
    for (Run& run : runs_) {
      if (!run.running) continue;
      const int layer = array_.plan.layer;
      const std::int64_t layer_offset = layer < 0 ? 0 : (run.layer - box.begin[at(layer)]) * stride(layer);
      if (step > 0 && all_alike(run, layer_offset, tokens, step)) continue;
      if (step > 0) {
        for (std::int64_t token = 0; token < tokens && run.running; ++token)
          run.running = continue_run(run, layer_offset + token * step);
        continue;
      }
      for_each_index(box, array_.token_axes, [&](const std::vector<std::int64_t>& index) {
        std::int64_t offset = layer_offset;
        for (const int axis : array_.token_axes)
          offset += (index[at(axis)] - box.begin[at(axis)]) * stride(axis);
        run.running = run.running && continue_run(run, offset);
      });
    }
  }

  /// What is between one token and the next in the buffer, in numbers; 0 where that differs from token to
  /// token.
  std::int64_t token_step(const Box& box) const {
    std::int64_t step = 0, next = 0;
    for (auto axis = array_.token_axes.rbegin(); axis != array_.token_axes.rend(); ++axis) {
      if (box.length(*axis) == 1) continue;
      if (step == 0) step = next = stride(*axis);
      if (stride(*axis) != next) return 0;
      next *= box.length(*axis);
    }
    return step;
  }

  /// Whether rows that lie back to back are all like the run's first, in which case they are added to it:
  /// layers of nothing else, the dense ones, are compared at the speed of memory.
  bool all_alike(Run& run, std::int64_t offset, std::int64_t tokens, std::int64_t step) {
    const std::int64_t columns = array_.extent(array_.plan.row);
    if (run.first_row.empty() || step != columns || (columns > 1 && stride(array_.plan.row) != 1))
      return false;
    const std::size_t row_bytes = run.first_row.size();
    const std::byte* first = numbers_.bytes.data() + offset * array_.boxes.array().number.bytes;
    const bool alike =
        std::memcmp(first, run.first_row.data(), row_bytes) == 0 &&
        std::memcmp(first, first + row_bytes, static_cast<std::size_t>(tokens - 1) * row_bytes) == 0;
    if (alike) run.rows->tokens += tokens;
    return alike;
  }

  /// Whether the row at `offset` in the buffer is like the run's first, to which it is then added.
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
    // Adjacent columns are one piece of memory.
    const std::int64_t piece = column_stride == 1 ? columns : 1;
    for (std::int64_t column = 0; column < columns; column += piece)
      if (std::memcmp(number(column), run.first_row.data() + column * format.bytes,
                      static_cast<std::size_t>(piece * format.bytes)) != 0)
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
