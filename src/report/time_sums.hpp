// Modelled times over batches, of policies or of the slowest ranks of placements: sums of times, never the
// time of sums.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/report.hpp"
#include "report/fixed_point_sum.hpp"
#include "report/fraction_distribution.hpp"

namespace dropless {

class TimeSums {
 public:
  /// `series` times a batch.
  explicit TimeSums(std::size_t series) : sums_(series), fractions_(series), logarithms_(series) {}

  /// times[series] of `batches` batches that are alike and have rows. Throws Error past 2^31 us.
  void add(const std::vector<ModelledTime>& times, std::int64_t batches);
  void add(const TimeSums& other);
  void use_bins() { logarithms_.use_bins(); }

  /// Figures of one series over `batches` batches with rows.
  TimeFigures figures(std::size_t series, std::int64_t batches) const;

 private:
  struct Sums {
    FixedPointSum us;
    std::int64_t memory_bound = 0;
  };

  std::vector<Sums> sums_;
  std::vector<double> fractions_;    // of the batch that is being added
  FractionDistribution logarithms_;  // of times, as fractions of the span that the class can tell apart
};

}  // namespace dropless
