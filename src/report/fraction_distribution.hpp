// The distribution of several fractions over batches: every value while they are few, counts in bins of 1e-4
// once they are many. Percentiles interpolate linearly between the two nearest values.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace dropless {

/// `series` fractions in [0, 1] a batch, one of each policy.
class FractionDistribution {
 public:
  static constexpr std::size_t bins = 10001;  ///< bin i holds the values nearest to i * 1e-4

  explicit FractionDistribution(std::size_t series) : series_(series), largest_(series, 0.0) {}

  /// fractions[0, series) of `times` batches that are alike.
  void add(const double* fractions, std::int64_t times = 1);
  /// Adds what `other` holds. Both hold values, or both hold bins.
  void add(const FractionDistribution& other);
  /// From here on counts stand in for values.
  void use_bins();
  bool uses_bins() const { return bins_ != nullptr; }

  /// The value below which `share` of the batches lie, in [0, 1]; 0 where there is no batch.
  double percentile(std::size_t series, double share) const;
  double largest(std::size_t series) const { return largest_[series]; }

 private:
  struct Free {
    void operator()(std::uint32_t* memory) const { std::free(memory); }
  };

  void count(const double* fractions, std::int64_t times);
  double ordered_bin(std::size_t series, std::uint64_t rank) const;

  std::size_t series_;
  std::uint64_t batches_ = 0;
  std::vector<double> values_;  // [batches, series], unless bins_ is set
  // [series, bins]; from calloc, so that bins which no batch falls into take no memory.
  std::unique_ptr<std::uint32_t[], Free> bins_;
  std::vector<double> largest_;
};

}  // namespace dropless
