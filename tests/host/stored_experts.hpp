// Random expert matrices, each as a dense matrix of its own and stored together in any of the ways that
// HostExpertWeights knows.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "dropless/reference.hpp"
#include "random_values.hpp"

namespace dropless::test {

/// One expert's k x n matrix, dense and row-major.
using Matrix = std::vector<double>;

/// The ways in which the same expert matrices can lie in memory.
struct Storage {
  WeightOrder order;
  bool two_tensors;
  bool separate;
  std::int64_t extra_pitch;
};

/// Expert matrices of the given widths along n (sdd) or k (dsd), laid out in one of the ways.
struct Experts {
  std::int64_t k, n;
  bool narrow_n;
  std::vector<std::int64_t> widths, begins;
  std::vector<Matrix> matrices;
  std::vector<std::vector<double>> memory;
  std::vector<const double*> first_pointers, second_pointers;
  HostExpertWeights<double> weights;

  std::int64_t columns(std::size_t e) const { return narrow_n ? widths[e] : n; }
  std::int64_t depth(std::size_t e) const { return narrow_n ? k : widths[e]; }
};

inline Experts make_experts(std::int64_t k, std::int64_t n, bool narrow_n, std::vector<std::int64_t> widths,
                            const Storage& storage, std::uint32_t seed) {
  Experts experts{k, n, narrow_n, widths, {}, {}, {}, {}, {}, {}};
  const std::int64_t count = static_cast<std::int64_t>(widths.size()), full = narrow_n ? n : k;
  bool ragged = false;
  for (std::size_t e = 0; e < widths.size(); ++e) {
    experts.matrices.push_back(
        random_values<double>(experts.depth(e) * experts.columns(e), seed + static_cast<std::uint32_t>(e)));
    ragged = ragged || widths[e] != full;
  }
  const std::int64_t tensors = storage.two_tensors ? 2 : 1;
  // A stack holds the experts one after another along the narrowed dimension.
  const bool narrowed_outermost = narrow_n == (storage.order == WeightOrder::n_by_k);
  const std::int64_t other = narrow_n ? k : n;
  std::int64_t stacked = 0;
  for (const std::int64_t width : widths) {
    experts.begins.push_back(stacked);
    stacked += (ragged ? width : full) / tensors;
  }
  const std::int64_t outer = narrowed_outermost ? stacked : other;
  const std::int64_t inner = narrowed_outermost ? other : stacked;
  const std::int64_t pitch = inner + storage.extra_pitch;
  for (std::int64_t t = 0; t < tensors; ++t) {
    std::vector<double> tensor(static_cast<std::size_t>(outer * pitch), 1e30);
    for (std::size_t e = 0; e < widths.size(); ++e) {
      const std::int64_t half = widths[e] / tensors;
      for (std::int64_t i = 0; i < half; ++i)
        for (std::int64_t o = 0; o < other; ++o) {
          const std::int64_t wide = t * half + i, row = experts.begins[e] + i;
          const double value = narrow_n ? experts.matrices[e][static_cast<std::size_t>(o * widths[e] + wide)]
                                        : experts.matrices[e][static_cast<std::size_t>(wide * n + o)];
          tensor[static_cast<std::size_t>(narrowed_outermost ? row * pitch + o : o * pitch + row)] = value;
        }
    }
    experts.memory.push_back(std::move(tensor));
  }
  auto& weights = experts.weights;
  weights.experts = count;
  weights.k = k;
  weights.n = n;
  weights.order = storage.order;
  weights.leading_dimension = pitch;
  for (std::int64_t t = 0; t < tensors; ++t) {
    HostWeightTensor<double>& tensor = t == 0 ? weights.first : weights.second;
    std::vector<const double*>& pointers = t == 0 ? experts.first_pointers : experts.second_pointers;
    tensor.data = experts.memory[static_cast<std::size_t>(t)].data();
    const std::int64_t step = narrowed_outermost ? pitch : 1;
    tensor.expert_stride = full / tensors * step;
    for (const std::int64_t begin : experts.begins) pointers.push_back(tensor.data + begin * step);
  }
  if (storage.separate) {
    weights.first = {nullptr, 0, experts.first_pointers};
    if (storage.two_tensors) weights.second = {nullptr, 0, experts.second_pointers};
  }
  if (ragged) {
    weights.d_ff = experts.widths;
    weights.d_ff_begin = experts.begins;
  }
  return experts;
}

}  // namespace dropless::test
