// Cutting an array into units of work: layers and batches whose counts are open together while their part of
// the file is read once, in file order.
//
// That order is what makes any order of the axes stream: with the layer axis third, all layers of a batch are
// counted side by side; with tokens outermost, all batches are.
#pragma once
#include <cstdint>
#include <vector>

#include "traces/array_boxes.hpp"
#include "traces/axis_plan.hpp"

namespace dropless::traces {

/// An array whose axes have meanings.
struct BatchedArray {
  ArrayBoxes boxes;
  AxisPlan plan;
  std::int64_t batch_tokens = 0;  ///< > 0: batches are this many consecutive tokens of a layer
  std::int64_t experts = 0;
  std::vector<int> token_axes;  ///< all but layer and row, outermost first: the order of a layer's tokens
  /// By layer index in the file: its place among the selected ones, or -1.
  std::vector<std::int64_t> selected;

  std::int64_t extent(int axis) const {
    return axis < 0 ? 1 : boxes.array().shape[static_cast<std::size_t>(axis)];
  }
  std::int64_t layer_tokens() const;
  /// Batches of a layer whose first `skipped_tokens` are left out before batches are cut.
  std::int64_t batches_of_layer(std::int64_t skipped_tokens) const;
  /// Whether a layer is one piece of the file (but for a row axis outside it).
  bool layer_is_outermost() const;
  /// Whether the tokens of a layer, by number, follow one another in the file.
  bool tokens_in_file_order() const { return !boxes.array().fortran_order || token_axes.size() < 2; }
};

struct Unit {
  Box box;  ///< its layers and, unless they are cut from tokens, its batches; whole on every other axis
  std::int64_t first_batch = 0, last_batch = 0;  ///< with batch_tokens: the batches, by number
  std::int64_t skipped_tokens = 0;               ///< with batch_tokens: tokens before batch 0
};

/// Units that cover the selected layers. For batches cut from tokens, `skipped_tokens` is by selected layer,
/// and units hold whole rows of `batches_in_a_row`.
std::vector<Unit> make_units(const BatchedArray& array, int workers,
                             const std::vector<std::int64_t>& skipped_tokens, std::int64_t batches_in_a_row);

/// What one of `parts` workers reads where they share a unit: boxes that together cover it once. With batches
/// cut from tokens, a part holds whole runs of `tokens_in_a_row`, counted from the unit's first token.
std::vector<Box> boxes_of(const BatchedArray& array, const Unit& unit, int part, int parts,
                          std::int64_t tokens_in_a_row);

}  // namespace dropless::traces
