// How uneven the experts of one batch are: max over mean, coefficient of variation, Gini coefficient.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dropless/batch_rows.hpp"
#include "report/row_histogram.hpp"

namespace dropless {

struct Imbalance {
  double max_over_mean = 0;             ///< most rows of one expert / mean rows of all experts
  double coefficient_of_variation = 0;  ///< standard deviation over all experts (population) / mean
  double gini = 0;                      ///< sum over pairs |rows_i - rows_j| / (2 E^2 mean)
};

/// Of a batch with at least one row.
Imbalance imbalance(const BatchRows& batch, double gini);

/// Gini coefficients of one batch after another, without a sort where experts have few rows: counting how
/// many experts have each number of rows gives the sum over pairs in one sweep, and the same counts feed the
/// distribution of rows per expert.
class GiniCounter {
 public:
  /// The Gini coefficient of a batch with at least one row; adds its rows per expert to `rows_per_expert`,
  /// `times` times.
  double operator()(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert);

 private:
  template <class ExpertsWith>
  double by_levels(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert,
                   std::size_t levels, ExpertsWith experts_with);
  double by_sorting(const BatchRows& batch, std::int64_t times, RowHistogram& rows_per_expert);

  // [rows][expert % 4], all zero between calls; neighbours count apart, for they often have as many rows.
  std::array<std::array<std::uint32_t, 4>, RowHistogram::exact_below> experts_with_{};
  std::vector<std::int64_t> sorted_;
};

}  // namespace dropless
