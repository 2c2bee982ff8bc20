// Expert products by plain loops: one output row (or one row of a gradient) at a time, k in ascending order.
#include <algorithm>
#include <string>
#include <vector>

#include "dropless/integer_math.hpp"
#include "dropless/reference.hpp"

namespace dropless {
namespace {

/// Which dimension of the weights the widths and the two tensors divide.
enum class NarrowedDimension { n, k };

/// A rectangle of one expert's matrix that lies in one tensor: rows of input features, columns of outputs.
template <class T>
struct WeightPart {
  const T* data;
  std::int64_t k_stride, n_stride;
  std::int64_t k_begin, k_end, n_begin, n_end;  // of the expert's whole matrix
};

void check_rows(const HostExpertRows& rows, std::int64_t experts) {
  const auto count = static_cast<std::size_t>(experts);
  if (experts < 1) throw Error("experts", std::to_string(experts), "at least 1");
  if (rows.row_begin.size() < count || rows.row_count.size() < count)
    throw Error("rows", std::to_string(std::min(rows.row_begin.size(), rows.row_count.size())) + " experts",
                "row_begin and row_count of " + std::to_string(experts) + " experts");
}

/// Whether a product of so many multiply-adds repays the threads; a smaller one is done before they have
/// woken up. (In floating point, which cannot overflow.)
bool repays_threads(const HostExpertRows& rows, std::int64_t k, std::int64_t n) {
  double count = 0;
  for (const std::int64_t expert_rows : rows.row_count) count += static_cast<double>(expert_rows);
  return count * static_cast<double>(k) * static_cast<double>(n) >= 1e5;
}

/// Width of expert e along the narrowed dimension.
template <class T>
std::int64_t expert_width(const HostExpertWeights<T>& weights, NarrowedDimension narrowed, std::size_t e) {
  const std::int64_t full = narrowed == NarrowedDimension::n ? weights.n : weights.k;
  return weights.d_ff.empty() ? full : weights.d_ff[e];
}

template <class T>
void check_weights(const HostExpertWeights<T>& weights, NarrowedDimension narrowed) {
  const auto experts = static_cast<std::size_t>(weights.experts);
  const std::int64_t full = narrowed == NarrowedDimension::n ? weights.n : weights.k;
  if (!weights.d_ff.empty() && (weights.d_ff.size() < experts || weights.d_ff_begin.size() < experts))
    throw Error("d_ff",
                std::to_string(weights.d_ff.size()) + " widths and " +
                    std::to_string(weights.d_ff_begin.size()) + " begins",
                "one of each for the " + std::to_string(experts) + " experts");
  for (std::size_t e = 0; e < experts; ++e) {
    const std::int64_t width = expert_width(weights, narrowed, e);
    if (width < 0 || width > full || (has_second(weights) && width % 2 != 0))
      throw Error("d_ff of expert " + std::to_string(e), std::to_string(width),
                  "a width in [0, " + std::to_string(full) + "], even for two tensors");
  }
}

template <class T>
WeightPart<T> weight_part(const HostExpertWeights<T>& weights, const HostWeightTensor<T>& tensor,
                          NarrowedDimension narrowed, std::size_t e, std::int64_t begin, std::int64_t end) {
  const std::int64_t ld = weights.leading_dimension;
  const bool k_by_n = weights.order == WeightOrder::k_by_n;
  WeightPart<T> part{nullptr, k_by_n ? ld : 1, k_by_n ? 1 : ld, 0, weights.k, 0, weights.n};
  (narrowed == NarrowedDimension::n ? part.n_begin : part.k_begin) = begin;
  (narrowed == NarrowedDimension::n ? part.n_end : part.k_end) = end;
  const std::int64_t expert = static_cast<std::int64_t>(e);
  if (!tensor.matrices.empty())
    part.data = tensor.matrices[e];
  else if (weights.d_ff.empty())
    part.data = tensor.data + expert * tensor.expert_stride;
  else
    part.data = tensor.data +
                weights.d_ff_begin[e] * (narrowed == NarrowedDimension::n ? part.n_stride : part.k_stride);
  return part;
}

/// The one or two rectangles that make up expert e's matrix, in ascending order of the narrowed dimension.
template <class T>
std::vector<WeightPart<T>> weight_parts(const HostExpertWeights<T>& weights, NarrowedDimension narrowed,
                                        std::size_t e) {
  const std::int64_t width = expert_width(weights, narrowed, e);
  if (!has_second(weights)) return {weight_part(weights, weights.first, narrowed, e, 0, width)};
  return {weight_part(weights, weights.first, narrowed, e, 0, width / 2),
          weight_part(weights, weights.second, narrowed, e, width / 2, width)};
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
void rows_by_weights(const HostExpertRows& rows, const HostRowsView<const T>& in,
                     const HostExpertWeights<T>& weights, NarrowedDimension narrowed,
                     const HostRowsView<T>& out, bool accumulate) {
  check_rows(rows, weights.experts);
  check_weights(weights, narrowed);
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
  check_rows(rows, dw.experts);
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
