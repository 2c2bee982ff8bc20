// A sum of doubles that does not depend on the order of its terms, so that a report is the same for any
// number of workers: each term is rounded to a multiple of 2^-32 and added as an integer of 128 bits.
#pragma once
#include <cmath>
#include <cstdint>

namespace dropless {

/// Terms are in [0, 2^31).
class FixedPointSum {
 public:
  void add(double term) { add_bits(static_cast<std::uint64_t>(std::llrint(term * scale)), 0); }
  void add(const FixedPointSum& other) { add_bits(other.low_, other.high_); }
  double value() const {
    return (std::ldexp(static_cast<double>(high_), 64) + static_cast<double>(low_)) / scale;
  }

 private:
  static constexpr double scale = 4294967296.0;

  void add_bits(std::uint64_t low, std::uint64_t high) {
    low_ += low;
    high_ += high + (low_ < low);
  }

  std::uint64_t low_ = 0, high_ = 0;
};

}  // namespace dropless
