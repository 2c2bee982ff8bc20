// The matrix products of dropless experts over expert rows: every row is multiplied by its own expert's
// matrices.
//
//   sdd                sparse = dense x dense:    H[r, :] = X[r, :] W1[expert of r]
//   dsd                dense = sparse x dense:    Y[r, :] = H[r, :] W2[expert of r]
//   weight_gradient    dense = rows^T x rows:     dW[e]   = A[rows of e, :]^T B[rows of e, :]
//
// H is the block-sparse matrix of MegaBlocks held row by row: a row's non-zero columns are exactly its
// expert's, so H is stored [rows, d_ff]. The backward products are the same verbs over `transposed` weights:
//   dH = sdd(dY, transposed(W2))     dX = dsd(dH, transposed(W1))
//   dW1 = weight_gradient(X, dH)     dW2 = weight_gradient(H, dY)
//
// Promises of every call: work goes to the given stream only; no allocation, no host synchronisation,
// capturable in a CUDA graph. Same input, same bits. A row's result bits do not depend on any other row
// (weight gradients promise run-to-run bits only). Float accumulation over k in ascending order. Rows outside
// every expert and columns past an expert's width are neither read for a result nor written. Arguments are
// checked before anything is launched, and Error names the one that is refused; so are ExpertRows that lie in
// the memory of a GPU other than the current one.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/element_type.hpp"
#include "dropless/expert_rows.hpp"
#include "dropless/kernel_path.hpp"
#include "dropless/rows_view.hpp"
#include "dropless/separate_matrices.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// How one expert's matrix lies in memory: [k, n] (input features outermost) or [n, k].
enum class WeightOrder : std::int32_t { k_by_n, n_by_k };

/// One tensor of expert matrices. Either one allocation with a stride, or `matrices`: a device array of
/// `experts` device pointers (E separate tensors, prepared once at load time by separate_matrices.hpp, whose
/// maps the Hopper path needs), each a multiple of 16 bytes unless the maps say otherwise.
struct WeightTensor {
  const void* data = nullptr;
  std::int64_t expert_stride = 0;  ///< elements, 0 or more, between experts' matrices; unused with widths
  const void* const* matrices = nullptr;  ///< device [experts]; replaces data and expert_stride
  MatrixMaps maps{};                      ///< of `matrices`, as stored
};

/// Experts of different widths d_ff, 0..the full one. Weights are then stacked along d_ff: expert e's slice
/// begins at row (or column) d_ff_begin[e] of the stacked tensor. Separate tensors need no begins.
struct ExpertWidths {
  const std::int32_t* d_ff = nullptr;        ///< device [experts]; null: every expert has the full width
  const std::int32_t* d_ff_begin = nullptr;  ///< device [experts]
};

/// The matrices W[e], each k x n (k input features, n output features), of `experts` experts. With `second`
/// the d_ff dimension (n in sdd, k in dsd) is the concatenation of two tensors of half the size each, gate
/// then up; d_ff[e] then counts both halves and is even, and d_ff_begin[e] counts within one tensor.
struct ExpertWeights {
  ElementType type = ElementType::bf16;
  std::int64_t experts = 0;
  std::int64_t k = 0;  ///< input features (the widest expert's)
  std::int64_t n = 0;  ///< output features (the widest expert's)
  WeightOrder order = WeightOrder::k_by_n;
  std::int64_t leading_dimension = 0;  ///< elements between rows of one matrix as `order` lays it out
  WeightTensor first{};
  WeightTensor second{};  ///< data and matrices null: one tensor
  ExpertWidths widths{};
};

/// The same matrices read the other way round: k and n exchanged, the order flipped; no data moves.
ExpertWeights transposed(const ExpertWeights& weights);

/// Gradients dW[e], each m x n row-major (m = columns of A, n = columns of B), of `experts` experts. 16-bit
/// or float. All are of one width: of an expert narrower than that, the columns past its own hold what the
/// products of its rows' columns there are.
struct ExpertGradients {
  ElementType type = ElementType::bf16;
  std::int64_t experts = 0;
  std::int64_t m = 0, n = 0;
  std::int64_t leading_dimension = 0;  ///< elements between rows of one matrix
  std::int64_t expert_stride = 0;      ///< elements from one expert's matrix to the next
  void* data = nullptr;
  void* const* matrices = nullptr;  ///< device [experts]; replaces data and expert_stride
  MatrixMaps maps{};                ///< of `matrices`; float gradients need none
};

/// sm90 needs bf16 or fp16 operands; bases, leading dimensions and strides in multiples of 16 bytes; rows of
/// n elements, a multiple of 8, in 16-bit outputs; one width for all experts; separate tensors with their
/// maps; fewer than 2^30 rows; and of two tensors that share d_ff, each a multiple of 64 wide.
struct ProductOptions {
  bool accumulate = false;    ///< add into the output (beta 1) instead of overwriting it (beta 0)
  std::int32_t sm_limit = 0;  ///< > 0: occupy at most this many multiprocessors
  KernelPath path = KernelPath::automatic;
  /// The caller's promise that nothing else that takes tiles from rows.tile_counter (products and layers on
  /// these ExpertRows or a copy of them, where they are told the same) runs at the same time. The Hopper
  /// kernels' blocks then take their tiles from that counter as they get free, where they keep to a fixed
  /// order otherwise, which is faster most where k is long and experts are skewed
  /// (data/benchmarks/hopper_notes.md). Every product leaves the counter at zero. No bits depend on it.
  bool exclusive_rows = false;
};

/// H[r, :] = X[r, :] W1[expert of r]. x: [rows, k]; h: [rows, n], same element type as x and the weights.
/// h must not overlap x or the weights; column ranges of one buffer with one leading dimension are apart.
/// What the host can see of that is checked (not separate tensors or stacked widths). With widths, expert e
/// has n_e = widths.d_ff[e] output columns.
void sdd(const ExpertRows& rows, const RowsView& x, const ExpertWeights& w1, const MutableRowsView& h,
         const ProductOptions& options, Stream stream);

/// Y[r, :] = H[r, :] W2[expert of r]. h: [rows, k]; y: [rows, n]. With widths, expert e sums over k_e =
/// d_ff[e] columns only; what h holds past them never affects y.
void dsd(const ExpertRows& rows, const RowsView& h, const ExpertWeights& w2, const MutableRowsView& y,
         const ProductOptions& options, Stream stream);

/// dW[e] = A[rows of e]^T B[rows of e]; a: [rows, m], b: [rows, n]. An expert without rows gets zeros (or
/// keeps its values when accumulating). Padding rows between experts never leak in. dw must not overlap a or
/// b.
void weight_gradient(const ExpertRows& rows, const RowsView& a, const RowsView& b, const ExpertGradients& dw,
                     const ProductOptions& options, Stream stream);

/// The path that `automatic` would take for this call on the current device, for reports and tests.
KernelPath sdd_path(const ExpertRows& rows, const RowsView& x, const ExpertWeights& w1,
                    const MutableRowsView& h);
KernelPath dsd_path(const ExpertRows& rows, const RowsView& h, const ExpertWeights& w2,
                    const MutableRowsView& y);
KernelPath weight_gradient_path(const ExpertRows& rows, const RowsView& a, const RowsView& b,
                                const ExpertGradients& dw);

}  // namespace dropless
