// One expert's matrix among HostExpertWeights: the rectangles that make it up, and what is refused.
#pragma once
#include <string>
#include <vector>

#include "dropless/reference.hpp"
#include "matrix_span.hpp"

namespace dropless {

/// Which dimension of the weights the widths and the two tensors divide.
enum class NarrowedDimension { n, k };

/// A rectangle of one expert's matrix that lies in one tensor: rows of input features, columns of outputs.
template <class T>
struct WeightPart {
  const T* data;
  std::int64_t k_stride, n_stride;
  std::int64_t k_begin, k_end, n_begin, n_end;  // of the expert's whole matrix
};

/// Width of expert e along the narrowed dimension.
template <class T>
std::int64_t expert_width(const HostExpertWeights<T>& weights, NarrowedDimension narrowed, std::size_t e) {
  const std::int64_t full = narrowed == NarrowedDimension::n ? weights.n : weights.k;
  return weights.d_ff.empty() ? full : weights.d_ff[e];
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

/// The memory of expert e's rectangle in one tensor.
template <class T>
MatrixSpan part_span(const HostExpertWeights<T>& weights, const HostWeightTensor<T>& tensor,
                     NarrowedDimension narrowed, std::size_t e, std::int64_t begin, std::int64_t end,
                     const std::string& name) {
  const bool separate = !tensor.matrices.empty(), k_by_n = weights.order == WeightOrder::k_by_n;
  const bool narrowed_inner = (narrowed == NarrowedDimension::n) == k_by_n;
  if (!separate && !weights.d_ff.empty()) {
    require_at_least(weights.d_ff_begin[e], 0, "d_ff_begin of expert " + std::to_string(e));
    if (narrowed_inner)
      require_leading_dimension(weights.leading_dimension, weights.d_ff_begin[e] + end - begin,
                                name + ".leading_dimension");
  }
  require_memory(separate ? tensor.matrices[e] : tensor.data, end > begin, sizeof(T),
                 separate ? name + ".matrices[" + std::to_string(e) + "]" : name + ".data", host_memory);
  if (end == begin) return {};
  const WeightPart<T> part = weight_part(weights, tensor, narrowed, e, begin, end);
  const std::int64_t k = part.k_end - part.k_begin, n = part.n_end - part.n_begin;
  return matrix_span(name, part.data, k_by_n ? k : n, k_by_n ? n : k, weights.leading_dimension, sizeof(T),
                     host_memory);
}

/// The memory of every expert's matrix. Throws Error for arrays shorter than the experts, impossible widths,
/// null data and a leading dimension that the matrices do not fit in.
template <class T>
std::vector<MatrixSpan> checked_weights(const HostExpertWeights<T>& weights, NarrowedDimension narrowed,
                                        const std::string& name) {
  require_at_least(weights.experts, 1, name + ".experts");
  require_at_least(weights.k, 0, name + ".k");
  require_at_least(weights.n, 0, name + ".n");
  const auto experts = static_cast<std::size_t>(weights.experts);
  const bool two = has_second(weights);
  const auto require_size = [&](std::size_t size, const std::string& array) {
    require(size >= experts, "the size of " + name + "." + array, std::to_string(size),
            std::to_string(experts) + " or more, as there are experts");
  };
  const auto check_tensor = [&](const HostWeightTensor<T>& tensor, const std::string& which) {
    if (!tensor.matrices.empty()) return require_size(tensor.matrices.size(), which + ".matrices");
    if (!weights.d_ff.empty()) return require_size(weights.d_ff_begin.size(), "d_ff_begin");
    require_at_least(tensor.expert_stride, 0, name + "." + which + ".expert_stride");
  };
  if (!weights.d_ff.empty()) require_size(weights.d_ff.size(), "d_ff");
  check_tensor(weights.first, "first");
  if (two) check_tensor(weights.second, "second");

  const std::int64_t full = narrowed == NarrowedDimension::n ? weights.n : weights.k;
  std::vector<MatrixSpan> spans;
  for (std::size_t e = 0; e < experts; ++e) {
    const std::int64_t width = expert_width(weights, narrowed, e);
    require(width >= 0 && width <= full && (!two || width % 2 == 0), "d_ff of expert " + std::to_string(e),
            std::to_string(width), "a width in [0, " + std::to_string(full) + "], even for two tensors");
    const std::int64_t end = two ? width / 2 : width;
    spans.push_back(part_span(weights, weights.first, narrowed, e, 0, end, name + ".first"));
    if (two) spans.push_back(part_span(weights, weights.second, narrowed, e, end, width, name + ".second"));
  }
  return spans;
}

}  // namespace dropless
