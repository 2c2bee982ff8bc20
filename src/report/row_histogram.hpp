// How often each number of rows occurs: exact below 4096 rows, then 64 bins to every doubling, so that
// quantiles are exact where experts are small and within 1/64 elsewhere, whatever the trace's length.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace dropless {

/// Takes memory for the numbers of rows that occur and less, so that a trace of many layers stays small.
class RowHistogram {
 public:
  static constexpr std::int64_t exact_below = 4096;

  void add(std::int64_t rows, std::int64_t times = 1) {
    const std::size_t bin = bin_of(rows);
    reserve_bins(bin + 1);
    counts_[bin] += static_cast<std::uint64_t>(times);
  }
  void add(const RowHistogram& other) {
    reserve_bins(other.counts_.size());
    for (std::size_t i = 0; i < other.counts_.size(); ++i) counts_[i] += other.counts_[i];
  }

  std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count;
    return sum;
  }

  /// The smallest number of rows (its bin's least, past 4096) that at least `share` of the entries do not
  /// pass. 0 of an empty histogram.
  std::int64_t quantile(double share) const {
    const auto wanted = std::max<double>(1, share * static_cast<double>(total()));
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      below += counts_[i];
      if (static_cast<double>(below) >= wanted) return least_of(i);
    }
    return 0;
  }

  /// Entries in [least, below), both of which must be bin borders when above 4096.
  std::uint64_t count_between(std::int64_t least, std::int64_t below) const {
    std::uint64_t sum = 0;
    for (std::size_t i = bin_of(least); i < counts_.size() && least_of(i) < below; ++i) sum += counts_[i];
    return sum;
  }

  /// The counts of [0, most] rows, most < 4096, for a caller that adds many at once.
  std::uint64_t* exact_counts(std::int64_t most) {
    reserve_bins(static_cast<std::size_t>(most) + 1);
    return counts_.data();
  }

 private:
  static constexpr std::int64_t bins_per_doubling = 64;

  void reserve_bins(std::size_t bins) {
    if (counts_.size() < bins) counts_.resize(bins);
  }

  static std::size_t bin_of(std::int64_t rows) {
    if (rows < exact_below) return static_cast<std::size_t>(rows);
    // rows is in [2^doubling, 2^(doubling + 1)).
    const int doubling = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(rows))) - 1;
    return static_cast<std::size_t>(exact_below + (doubling - 12) * bins_per_doubling +
                                    (rows >> (doubling - 6)) - bins_per_doubling);
  }
  static std::int64_t least_of(std::size_t bin) {
    const std::int64_t past = static_cast<std::int64_t>(bin) - exact_below;
    if (past < 0) return static_cast<std::int64_t>(bin);
    const std::int64_t doubling = 12 + past / bins_per_doubling;
    return (bins_per_doubling + past % bins_per_doubling) << (doubling - 6);
  }

  std::vector<std::uint64_t> counts_;
};

}  // namespace dropless
