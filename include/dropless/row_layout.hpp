// Where each assignment's row goes: the packed layout (rows of all experts back to back) and the blocked one
// (each non-empty expert's rows rounded up to the block), from expert ids or from rows per expert. Host code.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/array_view.hpp"

namespace dropless {

/// The row layout of one batch. Rows are in expert order, and within an expert in the order of their
/// assignments (assignment = token * top_k + slot), so the layout is the stable sort of the kept assignments
/// by expert.
struct RowLayout {
  std::int64_t experts = 0;
  std::int64_t block = 1;                     ///< 1: packed; B: each expert's rows are rounded up to B
  std::int64_t useful_rows = 0;               ///< kept assignments
  std::int64_t scheduled_rows = 0;            ///< rows of the layout, padding included
  std::int64_t unrouted = 0;                  ///< ids below zero
  std::vector<std::int64_t> rows_per_expert;  ///< [experts] kept assignments of each expert
  std::vector<std::int64_t>
      row_offsets;  ///< [experts + 1] first layout row of each expert; last = scheduled_rows
  /// [scheduled_rows] assignment of each row, -1 for a padding row. Empty when built from counts.
  std::vector<std::int64_t> row_to_assignment;
  /// [assignments] row of each assignment, -1 where it is unrouted. Empty when built from counts.
  std::vector<std::int64_t> assignment_to_row;
};

/// From `expert_ids` [tokens * top_k], token-major. Ids below zero are skipped and counted; an id >= experts
/// throws Error naming its position and value. experts >= 1, block >= 1.
RowLayout row_layout_from_ids(ArrayView<const std::int32_t> expert_ids, std::int64_t experts,
                              std::int64_t block = 1);
RowLayout row_layout_from_ids(ArrayView<const std::int64_t> expert_ids, std::int64_t experts,
                              std::int64_t block = 1);

/// From rows per expert [experts]; each count >= 0. The order arrays stay empty.
RowLayout row_layout_from_counts(ArrayView<const std::int64_t> rows_per_expert, std::int64_t block = 1);

}  // namespace dropless
