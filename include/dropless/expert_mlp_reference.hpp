// The expert layer of expert_mlp.hpp on the CPU, forward and backward, in float or double: what tests compare
// with, and the layer for users without a GPU. The same operands in host memory, the same formulas, every sum
// in the operands' own type T and in ascending order of what it runs over. Threads by OpenMP; the result does
// not depend on their number. Backward recomputes what it needs from the tokens, so nothing is saved, and
// memory is allocated inside. Operands must not overlap.
//
// With experts of different widths, columns of a gradient past an expert's width get zeros (or keep their
// values when accumulating), as an expert without rows does.
#pragma once
#include <cstdint>

#include "dropless/array_view.hpp"
#include "dropless/expert_mlp.hpp"
#include "dropless/reference.hpp"

namespace dropless {

/// ExpertMlp in host memory.
template <class T>
struct HostExpertMlp {
  MlpKind kind = MlpKind::glu;
  Activation activation{};
  HostExpertWeights<T> up;       ///< k = d_model, n = up_columns(kind, d_ff)
  HostExpertWeights<T> down;     ///< k = d_ff, n = d_model
  const T* up_bias = nullptr;    ///< [experts, up.n], in the order of an expert's up columns
  const T* down_bias = nullptr;  ///< [experts, down.n]
};

/// ExpertMlpBatch in host memory. Ids below zero are no rows (unrouted, or held elsewhere); an id >= experts
/// throws Error.
template <class T>
struct HostExpertMlpBatch {
  std::int64_t tokens = 0;
  std::int64_t top_k = 1;
  ArrayView<const std::int32_t> ids;   ///< [tokens, top_k]
  const T* routing_weights = nullptr;  ///< [tokens, top_k]; null exactly where weight_place is none
  HostRowsView<const T> x;             ///< [tokens, d_model]
};

/// ExpertMlpGradients in host memory. Null data leaves that gradient out.
template <class T>
struct HostExpertMlpGradients {
  HostRowsView<T> x;                 ///< [tokens, d_model]; zeros for a token without rows
  HostExpertGradients<T> up;         ///< m = d_model, n = up.n; zeros for an expert without rows
  HostExpertGradients<T> up_second;  ///< where up has `second`: its own tensor, and `up` that of the first
  HostExpertGradients<T> down;       ///< m = d_ff, n = d_model
  T* up_bias = nullptr;              ///< [experts, up.n]
  T* down_bias = nullptr;            ///< [experts, down.n]
  T* routing_weights = nullptr;      ///< [tokens, top_k]; zero where the assignment is no row
};

/// out: [tokens, d_model]. Of the options, `sm_limit`, `path` and `composed` mean nothing here. T is float or
/// double, as in the calls below. Throws Error for operands that do not fit together, are null or overlap.
template <class T>
void reference_expert_mlp_forward(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
                                  const HostRowsView<T>& out, const ExpertMlpOptions& options = {});

/// out_gradient: [tokens, d_model].
template <class T>
void reference_expert_mlp_backward(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
                                   const HostRowsView<const T>& out_gradient,
                                   const HostExpertMlpGradients<T>& gradients,
                                   const ExpertMlpOptions& options = {});

/// ExpertMlpRows in host memory; rows_bound is the end of the last expert's rows.
template <class T>
struct HostExpertMlpRows {
  HostExpertRows rows;
  const T* row_weights = nullptr;  ///< [rows_bound]; null exactly where weight_place is none
  HostRowsView<const T> x;         ///< [rows_bound, d_model]
};

/// The same layer from rows to rows: y[r, :] = output_scale * weight[r] * (...) (+ y[r, :]). y: [rows_bound,
/// d_model]; only the experts' rows are written.
template <class T>
void reference_expert_mlp_rows_forward(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                                       const HostRowsView<T>& y, const ExpertMlpOptions& options = {});

/// y_gradient: [rows_bound, d_model]. Of the gradients, x is [rows_bound, d_model] and routing_weights is
/// [rows_bound]; both are written for the experts' rows only.
template <class T>
void reference_expert_mlp_rows_backward(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                                        const HostRowsView<const T>& y_gradient,
                                        const HostExpertMlpGradients<T>& gradients,
                                        const ExpertMlpOptions& options = {});

}  // namespace dropless
