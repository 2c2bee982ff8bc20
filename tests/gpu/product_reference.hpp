// The expert products once more on the GPU, as plainly as possible: one thread sums one output element in
// double over k, element by element. Tests compare with it at sizes that no CPU loop would finish; it is
// itself checked against the CPU reference. All calls wait for the device.
#pragma once
#include <cmath>
#include <cstdint>

#include "dropless/expert_products.hpp"

namespace dropless::test {

/// Which dimension of the weights is d_ff: n in sdd, k in dsd.
enum class DffDimension { n, k };

/// Writes uniform values of [-scale, scale) into the experts' rows: `columns` columns, or widths[expert]
/// where `widths` (device) is given. Everything else stays as it is.
void fill_rows(const ExpertRows& rows, const MutableRowsView& matrix, std::int64_t columns,
               const std::int32_t* widths, float scale, std::uint32_t seed);

/// The same for every element that the weights' experts own; expert e's values depend on e.
void fill_weights(const ExpertWeights& weights, DffDimension d_ff, float scale, std::uint32_t seed);

/// How far a result is from the double sums.
struct ProductErrors {
  double error_squared = 0, reference_squared = 0;
  unsigned long long beyond_bound = 0;  ///< elements past u |ref| + 1e-5 (|A| |B|), NaN included
  unsigned long long stray_writes = 0;  ///< elements outside the result whose bits changed

  double relative() const {
    return reference_squared > 0 ? std::sqrt(error_squared / reference_squared) : std::sqrt(error_squared);
  }
};

/// `before`: the bits of `out` before the call, the same layout; with `accumulate` they are added. `sums`
/// (device, [rows_bound, weights.n] or null) receives the double sums without them.
ProductErrors compare_rows_by_weights(const ExpertRows& rows, const RowsView& in,
                                      const ExpertWeights& weights, DffDimension d_ff, const RowsView& out,
                                      const void* before, bool accumulate, double* sums = nullptr);

/// `before` as above; `sums` [experts, m, n] or null. Separate tensors must lie in the memory that data,
/// expert_stride and experts describe.
ProductErrors compare_weight_gradient(const ExpertRows& rows, const RowsView& a, const RowsView& b,
                                      const ExpertGradients& dw, const void* before, bool accumulate,
                                      double* sums = nullptr);

/// How many of `bytes` differ between two device addresses.
unsigned long long differing_bytes(const void* left, const void* right, std::int64_t bytes);

/// Row i of `to` = row order[i] (device) of `from`: `bytes` bytes a row at the given byte pitch in both.
void gather_bytes(const void* from, void* to, const std::int32_t* order, std::int64_t rows,
                  std::int64_t bytes, std::int64_t pitch);

}  // namespace dropless::test
