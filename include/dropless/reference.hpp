// The expert products of expert_products.hpp on the CPU, in float or double: what tests compare with, and the
// products for users without a GPU. The same operands in host memory, the same meaning; sums run over k in
// ascending order in the operands' own type. Threads by OpenMP; the result does not depend on their number.
#pragma once
#include <cstdint>

#include "dropless/array_view.hpp"
#include "dropless/expert_products.hpp"

namespace dropless {

/// Expert e owns rows [row_begin[e], row_begin[e] + row_count[e]) of every row matrix of a call. A packed
/// layout is row_begin = its row_offsets, row_count = its rows_per_expert.
struct HostExpertRows {
  ArrayView<const std::int64_t> row_begin;  ///< [experts] or more
  ArrayView<const std::int64_t> row_count;  ///< [experts]
};

/// A row matrix in host memory; element (r, c) is data[r * leading_dimension + c].
template <class T>
struct HostRowsView {
  T* data = nullptr;
  std::int64_t leading_dimension = 0;
};

/// One tensor of expert matrices: one allocation with a stride, or E separate ones.
template <class T>
struct HostWeightTensor {
  const T* data = nullptr;
  std::int64_t expert_stride = 0;
  ArrayView<const T* const> matrices;  ///< [experts]; replaces data and expert_stride
};

/// ExpertWeights in host memory. With `second` each tensor holds half of an expert's d_ff dimension, and
/// `d_ff_begin` counts within one tensor.
template <class T>
struct HostExpertWeights {
  std::int64_t experts = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
  WeightOrder order = WeightOrder::k_by_n;
  std::int64_t leading_dimension = 0;
  HostWeightTensor<T> first;
  HostWeightTensor<T> second;                ///< data null and matrices empty: one tensor
  ArrayView<const std::int64_t> d_ff;        ///< [experts] or empty: every expert has the full width
  ArrayView<const std::int64_t> d_ff_begin;  ///< [experts] where d_ff is given
};

/// Whether two tensors share the d_ff dimension.
template <class T>
bool has_second(const HostExpertWeights<T>& weights) {
  return weights.second.data != nullptr || !weights.second.matrices.empty();
}

/// The same matrices read the other way round: k and n exchanged, the order flipped; no data moves.
template <class T>
HostExpertWeights<T> transposed(HostExpertWeights<T> weights) {
  const std::int64_t k = weights.k;
  weights.k = weights.n;
  weights.n = k;
  weights.order = weights.order == WeightOrder::k_by_n ? WeightOrder::n_by_k : WeightOrder::k_by_n;
  return weights;
}

/// ExpertGradients in host memory.
template <class T>
struct HostExpertGradients {
  std::int64_t experts = 0;
  std::int64_t m = 0, n = 0;
  std::int64_t leading_dimension = 0;
  std::int64_t expert_stride = 0;
  T* data = nullptr;
};

/// h[r, 0..n_e) = x[r, :] W1[e]; columns of h past n_e are not written. Throws Error for operands that do not
/// fit together, are null or overlap; so do the calls below.
void reference_sdd(const HostExpertRows& rows, const HostRowsView<const float>& x,
                   const HostExpertWeights<float>& w1, const HostRowsView<float>& h, bool accumulate = false);
void reference_sdd(const HostExpertRows& rows, const HostRowsView<const double>& x,
                   const HostExpertWeights<double>& w1, const HostRowsView<double>& h,
                   bool accumulate = false);

/// y[r, :] = h[r, 0..k_e) W2[e].
void reference_dsd(const HostExpertRows& rows, const HostRowsView<const float>& h,
                   const HostExpertWeights<float>& w2, const HostRowsView<float>& y, bool accumulate = false);
void reference_dsd(const HostExpertRows& rows, const HostRowsView<const double>& h,
                   const HostExpertWeights<double>& w2, const HostRowsView<double>& y,
                   bool accumulate = false);

/// dW[e] = a[rows of e]^T b[rows of e], zeros for an expert without rows.
void reference_weight_gradient(const HostExpertRows& rows, const HostRowsView<const float>& a,
                               const HostRowsView<const float>& b, const HostExpertGradients<float>& dw,
                               bool accumulate = false);
void reference_weight_gradient(const HostExpertRows& rows, const HostRowsView<const double>& a,
                               const HostRowsView<const double>& b, const HostExpertGradients<double>& dw,
                               bool accumulate = false);

}  // namespace dropless
