// Moving rows between token order and expert order on the GPU: gather before the products, combine after
// them, and the gradients of both.
//
//   gather            rows[row of (t, s), :] = x[t, :]
//   combine           out[t, :] = sum over slots s of weight[t, s] * rows[row of (t, s), :]
//   combine_backward  d rows[row of (t, s), :] = weight[t, s] * d out[t, :]
//                     d weight[t, s] = sum over columns of d out[t, :] * rows[row of (t, s), :]
//
// The gradient of gather is combine with unit weights.
//
// Promises of every call: one launch on the given stream; no allocation, no synchronisation, capturable. Sums
// are float, over slots in ascending order; no atomics. A token's result bits depend on nothing but its own
// rows, weights and the alignment of the operands. Assignments that are no row are skipped; rows that no
// assignment has are neither read nor written. All matrices of a call have one element type. 16-byte accesses
// are used where every base and leading dimension is a multiple of 16 bytes. Operands must not overlap.
// Throws Error for null pointers, mixed types, leading dimensions below `columns`, top_k outside 1..128, a
// row of 2^31 accesses or more in gather and combine, or an order in the memory of a GPU other than the
// current one.
#pragma once
#include <cstdint>

#include "dropless/row_order.hpp"
#include "dropless/rows_view.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// x: [tokens, columns] -> rows. Each token's row is read once.
void gather(const RowOrder& order, const RowsView& x, const MutableRowsView& rows, std::int64_t columns,
            Stream stream);

/// rows -> out: [tokens, columns]. `weights` is device [tokens, top_k], or null for unit weights. A token
/// without rows gets zeros. With `accumulate` the sum starts from what out holds.
void combine(const RowOrder& order, const RowsView& rows, const float* weights, const MutableRowsView& out,
             std::int64_t columns, bool accumulate, Stream stream);

/// The gradients that combine's backward may write; a null pointer leaves that one out.
struct CombineGradients {
  MutableRowsView rows;      ///< like combine's rows
  float* weights = nullptr;  ///< [tokens, top_k]; zero where the assignment is no row
};

/// out_gradient: [tokens, columns]. `rows` is what combine read and is used for the weights' gradient only.
void combine_backward(const RowOrder& order, const RowsView& rows, const float* weights,
                      const RowsView& out_gradient, const CombineGradients& gradients, std::int64_t columns,
                      Stream stream);

}  // namespace dropless
