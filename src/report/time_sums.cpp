// Percentiles of time come from the distribution of its logarithm: 64 doublings of a microsecond, 2^-32 to
// 2^32, are the fractions 0 to 1, so that bins of 1e-4 are 0.45 % of a time wherever it lies.
#include "report/time_sums.hpp"

#include <algorithm>
#include <cmath>

#include "ratio.hpp"

namespace dropless {
namespace {

constexpr double doublings = 64, longest_us = 2147483648.0;

double fraction_of(double us) { return us > 0 ? std::clamp(std::log2(us) / doublings + 0.5, 0.0, 1.0) : 0.0; }

double us_of(double fraction) { return fraction > 0 ? std::exp2((fraction - 0.5) * doublings) : 0.0; }

}  // namespace

void TimeSums::add(const std::vector<ModelledTime>& times, std::int64_t batches) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (!(times[i].us < longest_us))
      throw Error("modelled time of a batch", std::to_string(times[i].us) + " us", "less than 2^31 us");
    sums_[i].us.add(times[i].us, batches);
    if (times[i].bound_by_memory()) sums_[i].memory_bound += batches;
    fractions_[i] = fraction_of(times[i].us);
  }
  logarithms_.add(fractions_.data(), batches);
}

void TimeSums::add(const TimeSums& other) {
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    sums_[i].us.add(other.sums_[i].us);
    sums_[i].memory_bound += other.sums_[i].memory_bound;
  }
  logarithms_.add(other.logarithms_);
}

TimeFigures TimeSums::figures(std::size_t series, std::int64_t batches) const {
  const auto percentile = [&](double share) { return us_of(logarithms_.percentile(series, share)); };
  const Sums& sums = sums_[series];
  return {sums.us.value(), percentile(0.50), percentile(0.95), percentile(0.99),
          ratio(sums.memory_bound, batches)};
}

}  // namespace dropless
