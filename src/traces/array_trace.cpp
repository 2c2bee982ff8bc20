// Opening an array as a trace: what its axes, options and largest id say.
#include "traces/array_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <numeric>

#include "traces/array_reading.hpp"
#include "traces/axis_index.hpp"
#include "traces/id_runs.hpp"
#include "traces/workers.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t scanned_bytes = 256 << 10;

class ArrayTrace : public Trace {
 public:
  ArrayTrace(ArraySpec array, ArrayOrigin origin, const TraceOptions& options);
  const TraceInfo& info() const override { return opened_.info; }
  std::vector<LayerFacts> read(BatchSink& sink, int workers, Progress progress, void* context) override;

 private:
  void select_layers(const TraceOptions& options);
  void settle_experts(const TraceOptions& options);
  std::int64_t largest_id_of_file() const;

  OpenedArray opened_;
};

ArrayTrace::ArrayTrace(ArraySpec array, ArrayOrigin origin, const TraceOptions& options)
    : opened_{std::move(origin),
              {},
              {ArrayBoxes(std::move(array)), {}, options.batch_tokens, 0, {}, {}},
              options.drop_warmup} {
  opened_.info.path = opened_.origin.path;
  opened_.info.format = opened_.origin.format;
  opened_.info.assumptions = opened_.origin.assumptions;
  AxisPlan& plan = opened_.array.plan;
  plan = plan_axes(opened_.array.boxes.array().shape, options, opened_.origin, opened_.info.assumptions);
  for (int axis = 0; axis < opened_.array.boxes.axes(); ++axis)
    if (axis != plan.layer && axis != plan.row) opened_.array.token_axes.push_back(axis);
  opened_.info.counts_only = plan.counts;
  opened_.info.cumulative =
      plan.counts && plan.batch.empty() && opened_.origin.cumulative && !options.batched;
  if (plan.counts && plan.batch.empty() && !opened_.origin.cumulative && !options.batched)
    opened_.info.assumptions.push_back(
        "A layer's counts were taken to be those of one batch: had they been gathered over a run, their "
        "padding would say nothing about a batch.");

  const std::int64_t stated_top_k = options.top_k > 0 ? options.top_k : opened_.origin.top_k;
  opened_.info.top_k = plan.counts ? stated_top_k : opened_.array.extent(plan.row);
  if (!plan.counts && opened_.info.top_k < 1)
    throw FileError(opened_.origin.path, opened_.origin.place, "the slot axis is empty");
  if (!plan.counts && stated_top_k > 0 && stated_top_k != opened_.info.top_k) {
    if (options.top_k == 0)
      throw FileError(opened_.origin.path, opened_.origin.place,
                      fmt::format("rows of {} expert ids, but the file says that top_k is {}",
                                  opened_.info.top_k, stated_top_k));
    throw Error("top_k", std::to_string(stated_top_k),
                fmt::format("{}, the extent of the slot axis", opened_.info.top_k));
  }
  select_layers(options);
  settle_experts(options);
}

void ArrayTrace::select_layers(const TraceOptions& options) {
  const std::int64_t layers = opened_.array.extent(opened_.array.plan.layer);
  if (layers > most_layers)
    throw FileError(opened_.origin.path, opened_.origin.place,
                    fmt::format("{} layers; at most {} are believed (which axis is the layers'? {} was read)",
                                layers, most_layers, axes_text(opened_.array.plan.axes)));
  std::vector<std::int64_t>& selected = opened_.array.selected;
  selected.assign(static_cast<std::size_t>(layers), -1);
  std::vector<std::int64_t> wanted = options.layers;
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  if (wanted.empty()) {
    wanted.resize(selected.size());
    std::iota(wanted.begin(), wanted.end(), std::int64_t{0});
  }
  for (const std::int64_t layer : wanted) {
    if (layer < 0 || layer >= static_cast<std::int64_t>(selected.size()))
      throw Error("layers", std::to_string(layer),
                  fmt::format("layers of the file, 0 to {}", selected.size() - 1));
    selected[static_cast<std::size_t>(layer)] = static_cast<std::int64_t>(opened_.info.layers.size());
    opened_.info.layers.push_back(layer);
  }
}

void ArrayTrace::settle_experts(const TraceOptions& options) {
  std::int64_t& experts = opened_.array.experts;
  experts = options.experts > 0 ? options.experts : opened_.origin.experts;
  if (opened_.array.plan.counts) {
    const std::int64_t in_file = opened_.array.extent(opened_.array.plan.row);
    if (experts > 0 && experts != in_file) {
      if (options.experts == 0)
        throw FileError(
            opened_.origin.path, opened_.origin.place,
            fmt::format("rows of {} counts, but the file says that num_experts is {}", in_file, experts));
      throw Error("experts", std::to_string(experts),
                  fmt::format("{}, the extent of the expert axis", in_file));
    }
    experts = in_file;
  } else if (experts == 0) {
    // An id of 2^63 - 1 is refused as one too many all the same.
    experts = std::min(largest_id_of_file(), std::numeric_limits<std::int64_t>::max() - 1) + 1;
    if (experts == 0)
      throw FileError(opened_.origin.path, opened_.origin.place,
                      "holds no expert id of 0 or more, so the number of experts must be stated");
    opened_.info.experts_inferred = true;
  }
  if (experts < 1 || experts > most_experts)
    throw FileError(
        opened_.origin.path, opened_.origin.place,
        fmt::format("{} experts; 1 to {} are believed (are the axes, and what the numbers are, as "
                    "assumed?)",
                    experts, most_experts));
  opened_.info.experts = experts;
}

std::int64_t ArrayTrace::largest_id_of_file() const {
  // The largest number does not depend on the axes: the body is read straight through.
  const ArraySpec& array = opened_.array.boxes.array();
  const std::int64_t count = box_size(opened_.array.boxes.whole());
  const std::int64_t step = scanned_bytes / array.number.bytes;
  std::atomic<std::int64_t> next = 0, largest = -1;
  run_workers(count < 16 * step ? 1 : default_workers(), [&](int) {
    std::vector<std::byte> block(static_cast<std::size_t>(scanned_bytes));
    std::int64_t found = -1;
    for (std::int64_t first; (first = next.fetch_add(step)) < count;) {
      const std::int64_t some = std::min(step, count - first);
      array.bytes->read(array.offset + first * array.number.bytes, block.data(), some * array.number.bytes);
      BadNumber bad;
      found = std::max(found, largest_id(array.number, {block.data(), some, 1, 1, 1}, bad));
      if (bad.index < 0) continue;
      next = count;
      std::vector<std::int64_t> index(array.shape.size(), 0);
      std::int64_t rest = first + bad.index;
      for (auto axis = opened_.array.boxes.file_order().rbegin();
           axis != opened_.array.boxes.file_order().rend(); ++axis) {
        index[at(*axis)] = rest % array.shape[at(*axis)];
        rest /= array.shape[at(*axis)];
      }
      opened_.refuse(index, bad.reason);
    }
    for (std::int64_t seen = largest; seen < found && !largest.compare_exchange_weak(seen, found);) {
    }
  });
  return largest;
}

std::vector<LayerFacts> ArrayTrace::read(BatchSink& sink, int workers, Progress progress, void* context) {
  if (workers < 1) throw Error("workers", std::to_string(workers), "at least 1");
  return read_array(opened_, sink, workers, progress, context);
}

}  // namespace

std::unique_ptr<Trace> open_array_trace(ArraySpec array, ArrayOrigin origin, const TraceOptions& options) {
  return std::make_unique<ArrayTrace>(std::move(array), std::move(origin), options);
}

}  // namespace dropless::traces
