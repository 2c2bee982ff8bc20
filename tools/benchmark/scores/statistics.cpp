// Medians, spreads and geometric means.
#include "statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace dropless::benchmark {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double relative_spread(const std::vector<double>& values) {
  const double middle = median(values);
  if (middle == 0) return 0;
  const auto [smallest, largest] = std::minmax_element(values.begin(), values.end());
  return (*largest - *smallest) / middle;
}

double geometric_mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  double logarithms = 0;
  for (const double value : values) logarithms += std::log(value);
  return std::exp(logarithms / static_cast<double>(values.size()));
}

}  // namespace dropless::benchmark
