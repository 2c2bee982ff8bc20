// The three measures, each from sums that BatchRows has anyway or from one sweep over counts.
#include "report/imbalance.hpp"

#include <algorithm>
#include <cmath>

namespace dropless {

Imbalance imbalance(const BatchRows& batch, double gini) {
  const auto rows = static_cast<double>(batch.rows()), experts = static_cast<double>(batch.experts());
  Imbalance result;
  result.max_over_mean = static_cast<double>(batch.largest()) * experts / rows;
  // Rounding may leave a perfectly even batch a hair below zero.
  result.coefficient_of_variation =
      std::sqrt(std::max(0.0, batch.sum_of_squares() * experts / (rows * rows) - 1));
  result.gini = gini;
  return result;
}

double GiniCounter::operator()(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert) {
  if (batch.largest() >= RowHistogram::exact_below) return by_sorting(batch, times, rows_per_expert);
  const ArrayView<const std::uint32_t> known = batch.experts_with();
  if (!known.empty())
    return by_levels(batch, times, rows_per_expert, known.size(),
                     [&](std::size_t rows) { return known[rows]; });
  const ArrayView<const std::int64_t> rows = batch.rows_per_expert();
  for (std::size_t e = 0; e < rows.size(); ++e) ++experts_with_[static_cast<std::size_t>(rows[e])][e % 4];
  return by_levels(batch, times, rows_per_expert, static_cast<std::size_t>(batch.largest()) + 1,
                   [&](std::size_t rows_of_expert) {
                     auto& with = experts_with_[rows_of_expert];
                     const std::uint64_t sum = std::uint64_t{with[0]} + with[1] + with[2] + with[3];
                     with = {};
                     return sum;
                   });
}

// `experts_with(t)` is asked once for each t below `levels`, which the largest is below.
template <class ExpertsWith>
double GiniCounter::by_levels(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert,
                              std::size_t levels, ExpertsWith experts_with) {
  // Between t and t + 1 rows lies one unit of |rows_i - rows_j| for each pair with one expert on either side.
  std::uint64_t at_most = 0, pair_distance = 0;
  const auto experts = static_cast<std::uint64_t>(batch.experts());
  std::uint64_t* const histogram = rows_per_expert.exact_counts(static_cast<std::int64_t>(levels) - 1);
  for (std::size_t t = 0; t < levels; ++t) {
    const std::uint64_t with_t = experts_with(t);
    histogram[t] += with_t * static_cast<std::uint64_t>(times);
    at_most += with_t;
    pair_distance += at_most * (experts - at_most);
  }
  return static_cast<double>(pair_distance) /
         (static_cast<double>(experts) * static_cast<double>(batch.rows()));
}

double GiniCounter::by_sorting(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert) {
  sorted_.assign(batch.rows_per_expert().begin(), batch.rows_per_expert().end());
  std::sort(sorted_.begin(), sorted_.end());
  // The i-th smallest is added in i pairs and subtracted in experts - 1 - i.
  double pair_distance = 0, weight = 1 - static_cast<double>(batch.experts());
  for (const std::int64_t rows : sorted_) {
    pair_distance += weight * static_cast<double>(rows);
    weight += 2;
    rows_per_expert.add(rows, times);
  }
  return pair_distance / (static_cast<double>(batch.experts()) * static_cast<double>(batch.rows()));
}

}  // namespace dropless
