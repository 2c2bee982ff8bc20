// The modelled time of each policy over the batches of a layer: sums of times, never the time of sums.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/report.hpp"
#include "report/fixed_point_sum.hpp"
#include "report/fraction_distribution.hpp"

namespace dropless {

class TimeSums {
 public:
  explicit TimeSums(std::size_t policies) : sums_(policies), logarithms_(policies) {}

  /// `times` batches that are alike and have rows. Throws Error where a policy's time passes 2^31 us.
  /// `scratch` is overwritten.
  void add(const TimeModel& model, const ModelShape& shape, const std::vector<Policy>& policies,
           const BatchRows& rows, std::int64_t times, std::vector<double>& scratch);
  void add(const TimeSums& other);
  void use_bins() { logarithms_.use_bins(); }

  /// Figures of one policy over `batches` batches with rows.
  TimeFigures figures(std::size_t policy, std::int64_t batches) const;

 private:
  struct PolicySums {
    FixedPointSum us;
    std::int64_t memory_bound = 0;
  };

  std::vector<PolicySums> sums_;
  FractionDistribution logarithms_;  // of times, as fractions of the span that the class can tell apart
};

}  // namespace dropless
