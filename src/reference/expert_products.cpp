// Expert products by plain loops: one output row (or one row of a gradient) at a time, k in ascending order.
#include <string>
#include <vector>

#include "dropless/reference.hpp"
#include "expert_weights.hpp"
#include "operand_spans.hpp"
#include "row_matrix.hpp"

namespace dropless {
namespace {

/// Whether a product of so many multiply-adds repays the threads; a smaller one is done before they have
/// woken up. (In floating point, which cannot overflow.)
bool repays_threads(const HostExpertRows& rows, std::int64_t k, std::int64_t n) {
  double count = 0;
  for (const std::int64_t expert_rows : rows.row_count) count += static_cast<double>(expert_rows);
  return count * static_cast<double>(k) * static_cast<double>(n) >= 1e5;
}

/// sums[n] += x[k] W(k, n) over the part, k ascending; memory is walked along its contiguous dimension.
template <class T>
void add_product(const WeightPart<T>& part, const T* x, std::vector<T>& sums) {
  if (part.n_stride == 1) {
    for (std::int64_t k = part.k_begin; k < part.k_end; ++k) {
      const T* weight = part.data + (k - part.k_begin) * part.k_stride;
      for (std::int64_t n = part.n_begin; n < part.n_end; ++n)
        sums[static_cast<std::size_t>(n)] += x[k] * weight[n - part.n_begin];
    }
  } else {
    for (std::int64_t n = part.n_begin; n < part.n_end; ++n) {
      const T* weight = part.data + (n - part.n_begin) * part.n_stride;
      T& sum = sums[static_cast<std::size_t>(n)];
      for (std::int64_t k = part.k_begin; k < part.k_end; ++k) sum += x[k] * weight[k - part.k_begin];
    }
  }
}

template <class T>
void check(const HostExpertRows& rows, const HostRowsView<const T>& in, const HostExpertWeights<T>& weights,
           NarrowedDimension narrowed, const HostRowsView<T>& out) {
  check_rows(rows, weights.experts);
  const std::int64_t bound = rows_bound(rows);
  OperandSpans operands;
  for (const MatrixSpan& span : checked_weights(weights, narrowed, "weights"))
    operands.reads("weights", span);
  operands.reads("the input", rows_span("the input", in, bound, weights.k));
  operands.writes("the output", rows_span("the output", out, bound, weights.n));
  operands.check();
}

template <class T>
void check(const HostExpertRows& rows, const HostRowsView<const T>& a, const HostRowsView<const T>& b,
           const HostExpertGradients<T>& dw) {
  check_rows(rows, dw.experts);
  const std::int64_t bound = rows_bound(rows);
  OperandSpans operands;
  operands.reads("a", rows_span("a", a, bound, dw.m));
  operands.reads("b", rows_span("b", b, bound, dw.n));
  operands.writes("dw", gradient_span("dw", dw));
  operands.check();
}

template <class T>
void rows_by_weights(const HostExpertRows& rows, const HostRowsView<const T>& in,
                     const HostExpertWeights<T>& weights, NarrowedDimension narrowed,
                     const HostRowsView<T>& out, bool accumulate) {
  check(rows, in, weights, narrowed, out);
#pragma omp parallel if (repays_threads(rows, weights.k, weights.n))
  for (std::size_t e = 0; e < static_cast<std::size_t>(weights.experts); ++e) {
    const std::vector<WeightPart<T>> parts = weight_parts(weights, narrowed, e);
    const std::int64_t columns =
        narrowed == NarrowedDimension::n ? expert_width(weights, narrowed, e) : weights.n;
    const std::int64_t begin = rows.row_begin[e], end = begin + rows.row_count[e];
#pragma omp for schedule(dynamic) nowait
    for (std::int64_t r = begin; r < end; ++r) {
      const T* x = in.data + r * in.leading_dimension;
      T* y = out.data + r * out.leading_dimension;
      std::vector<T> sums(static_cast<std::size_t>(columns), T{0});
      for (const WeightPart<T>& part : parts) add_product(part, x, sums);
      for (std::int64_t n = 0; n < columns; ++n)
        y[n] = sums[static_cast<std::size_t>(n)] + (accumulate ? y[n] : T{0});
    }
  }
}

template <class T>
void rows_transposed_by_rows(const HostExpertRows& rows, const HostRowsView<const T>& a,
                             const HostRowsView<const T>& b, const HostExpertGradients<T>& dw,
                             bool accumulate) {
  check(rows, a, b, dw);
#pragma omp parallel for collapse(2) schedule(dynamic) if (repays_threads(rows, dw.m, dw.n))
  for (std::int64_t expert = 0; expert < dw.experts; ++expert)
    for (std::int64_t m = 0; m < dw.m; ++m) {
      const auto e = static_cast<std::size_t>(expert);
      std::vector<T> sums(static_cast<std::size_t>(dw.n), T{0});
      for (std::int64_t r = rows.row_begin[e]; r < rows.row_begin[e] + rows.row_count[e]; ++r) {
        const T left = a.data[r * a.leading_dimension + m];
        const T* right = b.data + r * b.leading_dimension;
        for (std::int64_t n = 0; n < dw.n; ++n) sums[static_cast<std::size_t>(n)] += left * right[n];
      }
      T* row = dw.data + expert * dw.expert_stride + m * dw.leading_dimension;
      for (std::int64_t n = 0; n < dw.n; ++n)
        row[n] = sums[static_cast<std::size_t>(n)] + (accumulate ? row[n] : T{0});
    }
}

}  // namespace

void reference_sdd(const HostExpertRows& rows, const HostRowsView<const float>& x,
                   const HostExpertWeights<float>& w1, const HostRowsView<float>& h, bool accumulate) {
  rows_by_weights(rows, x, w1, NarrowedDimension::n, h, accumulate);
}
void reference_sdd(const HostExpertRows& rows, const HostRowsView<const double>& x,
                   const HostExpertWeights<double>& w1, const HostRowsView<double>& h, bool accumulate) {
  rows_by_weights(rows, x, w1, NarrowedDimension::n, h, accumulate);
}

void reference_dsd(const HostExpertRows& rows, const HostRowsView<const float>& h,
                   const HostExpertWeights<float>& w2, const HostRowsView<float>& y, bool accumulate) {
  rows_by_weights(rows, h, w2, NarrowedDimension::k, y, accumulate);
}
void reference_dsd(const HostExpertRows& rows, const HostRowsView<const double>& h,
                   const HostExpertWeights<double>& w2, const HostRowsView<double>& y, bool accumulate) {
  rows_by_weights(rows, h, w2, NarrowedDimension::k, y, accumulate);
}

void reference_weight_gradient(const HostExpertRows& rows, const HostRowsView<const float>& a,
                               const HostRowsView<const float>& b, const HostExpertGradients<float>& dw,
                               bool accumulate) {
  rows_transposed_by_rows(rows, a, b, dw, accumulate);
}
void reference_weight_gradient(const HostExpertRows& rows, const HostRowsView<const double>& a,
                               const HostRowsView<const double>& b, const HostExpertGradients<double>& dw,
                               bool accumulate) {
  rows_transposed_by_rows(rows, a, b, dw, accumulate);
}

}  // namespace dropless
