// The steps of an expert layer between its matrix products: all of them memory-bound, each one launch. Rows
// are found on the device from the tile list; what columns past an expert's width hold is never used.
#pragma once
#include <cstdint>

#include "dropless/activation.hpp"
#include "dropless/expert_rows.hpp"
#include "dropless/mlp_kind.hpp"
#include "dropless/row_order.hpp"
#include "dropless/rows_view.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// The rows of one call and where they came from. An assignment is a row of the caller's where rows are in
/// expert order already: then row_to_assignment and order.assignment_to_row are null.
struct LayerRows {
  ExpertRows rows;
  RowOrder order{};
  const std::int32_t* row_to_assignment = nullptr;
};

/// A factor for each row: `scale` times the row's weight.
struct RowFactors {
  const float* weights = nullptr;  ///< by assignment; null: ones
  float scale = 1;
};

/// The columns of the up product, and what is applied to them.
struct LayerActivation {
  MlpKind kind = MlpKind::glu;
  Activation activation{};
  std::int64_t columns = 0;              ///< of the up product, the widest expert's
  const std::int32_t* widths = nullptr;  ///< device [experts], in up columns; null: `columns` everywhere
  const void* bias = nullptr;            ///< [experts, columns] of the rows' type; null: none
};

/// p = scales * product + bias, h = activation(p). p holds the product, and p afterwards where `keeps`; else
/// it is left in an unknown state. h may begin where p does, with p's leading dimension.
void activate(const LayerRows& rows, const LayerActivation& activation, const float* scales,
              const MutableRowsView& p, bool keeps, const MutableRowsView& h, Stream stream);

/// The backward step through the activation. h_gradient is dh of rows with factor 1; columns past an expert's
/// width get zeros in both outputs, since weight gradients have the full width.
struct ActivationBackward {
  RowsView p;
  RowFactors factors;
  MutableRowsView h;  ///< in: h_gradient; out: factor * h
  MutableRowsView p_gradient;
  /// factors.scale * (h_gradient . h + out_gradient row . down_bias of its expert), by assignment, with zeros
  /// where an assignment is no row; null: not wanted.
  float* weights_gradient = nullptr;
  RowsView out_gradient{};          ///< by row; used with down_bias only
  const void* down_bias = nullptr;  ///< [experts, d_model] of the rows' type
  std::int64_t d_model = 0;
};
void activate_backward(const LayerRows& rows, const LayerActivation& activation,
                       const ActivationBackward& backward, Stream stream);

/// target = factor * (source + bias) (+ target) for every row; `source` may be `target`. bias: [experts,
/// columns] or null.
void finish_rows(const LayerRows& rows, const RowsView& source, const MutableRowsView& target,
                 std::int64_t columns, const void* bias, const RowFactors& factors, bool accumulate,
                 Stream stream);

/// Backward of a weight on the input: target = weight * x row for every row, and weights_gradient (null: not
/// wanted) = x row . row_gradient, by assignment, with zeros where an assignment is no row. row_gradient is
/// the gradient of weight * x; `target` may be its memory. x: [tokens, columns], or by row.
void weigh_input(const LayerRows& rows, const RowsView& x, const float* weights, const RowsView& row_gradient,
                 const MutableRowsView& target, float* weights_gradient, std::int64_t columns, Stream stream);

/// Moves the second half of each row's width to the middle of all columns, with zeros where neither half is:
/// two tensors' weight gradients read each half at one place.
void spread_halves(const LayerRows& rows, const std::int32_t* widths, const MutableRowsView& matrix,
                   std::int64_t columns, Stream stream);

/// sums[e, c] = sum over expert e's rows of factor * matrix[row, c] (+ sums[e, c]); zeros for an expert
/// without rows. In float, in an order that depends on nothing but the expert's rows.
void sum_columns(const LayerRows& rows, const RowsView& matrix, std::int64_t columns,
                 const RowFactors& factors, float* sums, bool accumulate, Stream stream);

}  // namespace dropless
