// The few statistics that a benchmark reports. Host code without CUDA, so that tests can check the
// arithmetic.
#pragma once
#include <vector>

namespace dropless::benchmark {

/// The middle value, or the mean of the two middle values; 0 where there are none.
double median(std::vector<double> values);

/// (largest - smallest) / median: how far repeated measurements of one thing lie apart.
double relative_spread(const std::vector<double>& values);

/// exp(mean(log(value))); values > 0; 0 where there are none.
double geometric_mean(const std::vector<double>& values);

}  // namespace dropless::benchmark
