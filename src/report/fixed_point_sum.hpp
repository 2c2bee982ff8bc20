// A sum of doubles that does not depend on the order of its terms, so that a report is the same for any
// number of workers: each term is rounded down to a multiple of 2^-56 and added as an integer of 128 bits.
// A term of 1/8 and more stands exactly, so the mean of terms that are all alike is that term.
#pragma once
#include <cmath>
#include <cstdint>

namespace dropless {

/// Terms are in [0, 2^31), at most 2^40 of them.
class FixedPointSum {
 public:
  /// The same term `times` times.
  void add(double term, std::int64_t times = 1) {
    bits_ += static_cast<Bits>(term * scale) * static_cast<Bits>(times);
  }
  void add(const FixedPointSum& other) { bits_ += other.bits_; }
  double value() const { return static_cast<double>(bits_) / scale; }
  /// Over `count` terms, never above the largest: the division is the integers'. 0 where there is none.
  double mean(std::int64_t count) const {
    return count == 0 ? 0.0 : static_cast<double>(bits_ / static_cast<Bits>(count)) / scale;
  }

 private:
  __extension__ using Bits = unsigned __int128;
  static constexpr double scale = 0x1p56;

  Bits bits_ = 0;
};

}  // namespace dropless
