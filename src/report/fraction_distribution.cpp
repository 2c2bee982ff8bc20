// Values, then bins; and the two ways to find an order statistic.
#include "report/fraction_distribution.hpp"

#include <algorithm>
#include <cmath>
#include <new>

namespace dropless {

void FractionDistribution::add(const double* fractions, std::int64_t times) {
  batches_ += static_cast<std::uint64_t>(times);
  for (std::size_t i = 0; i < series_; ++i) largest_[i] = std::max(largest_[i], fractions[i]);
  if (uses_bins())
    count(fractions, times);
  else
    for (std::int64_t i = 0; i < times; ++i) values_.insert(values_.end(), fractions, fractions + series_);
}

void FractionDistribution::count(const double* fractions, std::int64_t times) {
  for (std::size_t i = 0; i < series_; ++i) {
    const auto bin = static_cast<int>(fractions[i] * (bins - 1) + 0.5);
    bins_[i * bins + static_cast<std::size_t>(bin)] += static_cast<std::uint32_t>(times);
  }
}

void FractionDistribution::add(const FractionDistribution& other) {
  batches_ += other.batches_;
  for (std::size_t i = 0; i < series_; ++i) largest_[i] = std::max(largest_[i], other.largest_[i]);
  values_.insert(values_.end(), other.values_.begin(), other.values_.end());
  if (uses_bins())
    for (std::size_t i = 0; i < series_ * bins; ++i) bins_[i] += other.bins_[i];
}

void FractionDistribution::use_bins() {
  if (uses_bins()) return;
  bins_.reset(static_cast<std::uint32_t*>(std::calloc(series_ * bins, sizeof(std::uint32_t))));
  if (!bins_) throw std::bad_alloc();
  for (std::size_t i = 0; i < values_.size(); i += series_) count(values_.data() + i, 1);
  values_ = {};
}

double FractionDistribution::ordered_bin(std::size_t series, std::uint64_t rank) const {
  std::uint64_t seen = 0;
  std::size_t bin = 0;
  while (bin < bins - 1 && (seen += bins_[series * bins + bin]) <= rank) ++bin;
  return static_cast<double>(bin) / (bins - 1);
}

double FractionDistribution::percentile(std::size_t series, double share) const {
  if (batches_ == 0) return 0;
  const double position = share * static_cast<double>(batches_ - 1);
  const auto rank = static_cast<std::uint64_t>(position);
  const double between = position - static_cast<double>(rank);
  const std::uint64_t next = std::min(rank + 1, batches_ - 1);
  if (uses_bins()) return std::lerp(ordered_bin(series, rank), ordered_bin(series, next), between);
  std::vector<double> ordered(batches_);
  for (std::size_t i = 0; i < ordered.size(); ++i) ordered[i] = values_[i * series_ + series];
  const auto at = ordered.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(ordered.begin(), at, ordered.end());
  const double upper = next == rank ? *at : *std::min_element(at + 1, ordered.end());
  return std::lerp(*at, upper, between);
}

}  // namespace dropless
