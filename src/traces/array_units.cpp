// How large a unit is: large enough to read well, small enough for bounded memory and for every worker to
// have some.
#include "traces/array_units.hpp"

#include <algorithm>
#include <limits>

#include "dropless/integer_math.hpp"
#include "traces/axis_index.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t open_counts_bytes = 16 << 20;
// A core's cache, for the counts of units that any number of batches can make.
constexpr std::int64_t cached_counts_bytes = 1 << 20;
constexpr std::int64_t smallest_unit_bytes = 1 << 20;
constexpr std::int64_t largest_unit_bytes = 64 << 20;
constexpr std::int64_t units_a_worker = 16;  // so many that a slow one does not hold up the rest

bool contains(const std::vector<int>& axes, int axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

std::int64_t bytes_of(const BatchedArray& array) {
  return box_size(array.boxes.whole()) * array.boxes.array().number.bytes;
}

std::int64_t target_bytes(const BatchedArray& array, int workers) {
  return std::clamp(bytes_of(array) / (workers * units_a_worker), smallest_unit_bytes, largest_unit_bytes);
}

/// Batches are ranges of a layer's tokens.
std::vector<Unit> units_of_tokens(const BatchedArray& array, int workers,
                                  const std::vector<std::int64_t>& skipped_tokens,
                                  std::int64_t batches_in_a_row) {
  const int layer_axis = array.plan.layer;
  const std::int64_t layers = array.extent(layer_axis);
  // Layers that leave out different numbers of tokens cut their batches at different places.
  const bool cut_apart =
      std::any_of(skipped_tokens.begin(), skipped_tokens.end(), [](auto n) { return n > 0; });
  const std::int64_t layers_a_unit = cut_apart || array.layer_is_outermost() ? 1 : layers;
  const std::int64_t token_bytes =
      std::max<std::int64_t>(1, bytes_of(array) / (layers * array.layer_tokens()));
  const std::int64_t batch_bytes =
      token_bytes * layers_a_unit * std::min(array.batch_tokens, array.layer_tokens());
  // A reader of rows of batches has one batch of a layer open at a time; else all of a unit's are.
  const std::int64_t open_batches = batches_in_a_row > 1
                                        ? std::numeric_limits<std::int64_t>::max()
                                        : cached_counts_bytes / (array.experts * 8 * layers_a_unit);
  const std::int64_t rows_a_unit =
      std::min(target_bytes(array, workers) / batch_bytes, open_batches) / batches_in_a_row;
  const std::int64_t batches_a_unit = std::max<std::int64_t>(1, rows_a_unit) * batches_in_a_row;
  std::vector<Unit> units;
  for (std::int64_t layer = 0; layer < layers; layer += layers_a_unit) {
    const std::int64_t selected = array.selected[static_cast<std::size_t>(layer)];
    if (layers_a_unit == 1 && selected < 0) continue;
    Unit unit{array.boxes.whole()};
    if (layer_axis >= 0) {
      unit.box.begin[at(layer_axis)] = layer;
      unit.box.end[at(layer_axis)] = layer + layers_a_unit;
    }
    if (cut_apart) unit.skipped_tokens = skipped_tokens[static_cast<std::size_t>(selected)];
    const std::int64_t batches = array.batches_of_layer(unit.skipped_tokens);
    for (std::int64_t first = 0; first < batches; first += batches_a_unit) {
      unit.first_batch = first;
      unit.last_batch = std::min(first + batches_a_unit, batches);
      units.push_back(unit);
    }
  }
  return units;
}

/// How many indices of each axis a unit takes. Layers and batches are split from the outermost in the file
/// inwards, until the unit is small enough. Splitting an axis that has tokens outside it scatters the reads,
/// so that is done only where the open counts demand it.
std::vector<std::int64_t> unit_extents(const BatchedArray& array, int workers) {
  std::vector<std::int64_t> extents = array.boxes.array().shape;
  std::int64_t bytes = bytes_of(array);
  std::int64_t counts = array.experts * 8 * array.extent(array.plan.layer);
  for (const int axis : array.plan.batch) counts *= array.extent(axis);
  const std::int64_t wanted_bytes = target_bytes(array, workers);
  bool tokens_outside = false;
  for (const int axis : array.boxes.file_order()) {
    if (axis == array.plan.row) continue;
    tokens_outside = tokens_outside || contains(array.plan.within, axis);
    if (contains(array.plan.within, axis)) continue;
    if (counts <= open_counts_bytes && (tokens_outside || bytes <= wanted_bytes)) break;
    std::int64_t& extent = extents[at(axis)];
    counts /= extent;
    bytes /= extent;
    std::int64_t fitting = open_counts_bytes / counts;
    if (!tokens_outside) fitting = std::min(fitting, wanted_bytes / std::max<std::int64_t>(bytes, 1));
    extent = std::clamp<std::int64_t>(fitting, 1, extent);
    if (extent > 1) break;
  }
  return extents;
}

}  // namespace

std::int64_t BatchedArray::layer_tokens() const {
  std::int64_t tokens = 1;
  for (const int axis : token_axes) tokens *= extent(axis);
  return tokens;
}

std::int64_t BatchedArray::batches_of_layer(std::int64_t skipped_tokens) const {
  if (batch_tokens > 0) return ceil_div(layer_tokens() - skipped_tokens, batch_tokens);
  std::int64_t batches = 1;
  for (const int axis : plan.batch) batches *= extent(axis);
  return batches;
}

bool BatchedArray::layer_is_outermost() const {
  for (const int axis : boxes.file_order())
    if (axis != plan.row) return axis == plan.layer || plan.layer < 0;
  return true;
}

std::vector<Unit> make_units(const BatchedArray& array, int workers,
                             const std::vector<std::int64_t>& skipped_tokens, std::int64_t batches_in_a_row) {
  std::vector<Unit> units;
  if (bytes_of(array) == 0) return units;
  if (array.batch_tokens > 0) return units_of_tokens(array, workers, skipped_tokens, batches_in_a_row);
  const std::vector<std::int64_t> extents = unit_extents(array, workers);
  const Box whole = array.boxes.whole();
  Box starts = whole;  // a unit for each multiple of the extents
  std::vector<int> axes;
  for (int axis = 0; axis < array.boxes.axes(); ++axis) {
    starts.end[at(axis)] = ceil_div(array.extent(axis), extents[at(axis)]);
    axes.push_back(axis);
  }
  for_each_index(starts, axes, [&](const std::vector<std::int64_t>& start) {
    Unit unit{whole};
    for (const int axis : axes) {
      unit.box.begin[at(axis)] = start[at(axis)] * extents[at(axis)];
      unit.box.end[at(axis)] = std::min(unit.box.begin[at(axis)] + extents[at(axis)], array.extent(axis));
    }
    const int layer = array.plan.layer;
    const bool one_layer = layer < 0 || unit.box.length(layer) == 1;
    if (one_layer && array.selected[layer < 0 ? 0 : static_cast<std::size_t>(unit.box.begin[at(layer)])] < 0)
      return;
    units.push_back(std::move(unit));
  });
  return units;
}

std::vector<Box> boxes_of(const BatchedArray& array, const Unit& unit, int part, int parts,
                          std::int64_t tokens_in_a_row) {
  if (array.batch_tokens > 0) {
    const std::int64_t begin = unit.skipped_tokens + unit.first_batch * array.batch_tokens;
    const std::int64_t end =
        std::min(unit.skipped_tokens + unit.last_batch * array.batch_tokens, array.layer_tokens());
    const std::int64_t step =
        round_up(ceil_div(end - begin, parts), std::clamp<std::int64_t>(end - begin, 1, tokens_in_a_row));
    return boxes_of_range(unit.box, array.token_axes, std::min(begin + part * step, end),
                          std::min(begin + (part + 1) * step, end));
  }
  if (parts == 1) return {unit.box};
  for (const int axis : array.boxes.file_order()) {
    if (!contains(array.plan.within, axis)) continue;
    const std::int64_t step = ceil_div(unit.box.length(axis), parts);
    Box box = unit.box;
    const std::int64_t first = box.begin[at(axis)], last = box.end[at(axis)];
    box.begin[at(axis)] = std::min(first + part * step, last);
    box.end[at(axis)] = std::min(first + (part + 1) * step, last);
    return {box};
  }
  return part == 0 ? std::vector<Box>{unit.box} : std::vector<Box>{};
}

}  // namespace dropless::traces
