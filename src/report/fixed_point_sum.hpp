// A sum of doubles that does not depend on the order of its terms, so that a report is the same for any
// number of workers: each term is rounded to a multiple of 2^-32 and added as an integer of 128 bits.
#pragma once
#include <cmath>
#include <cstdint>

namespace dropless {

/// Terms are in [0, 2^31).
class FixedPointSum {
 public:
  /// The same term `times` times.
  void add(double term, std::int64_t times = 1) {
    bits_ += static_cast<Bits>(std::llrint(term * scale)) * static_cast<Bits>(times);
  }
  void add(const FixedPointSum& other) { bits_ += other.bits_; }
  double value() const { return static_cast<double>(bits_) / scale; }

 private:
  __extension__ using Bits = unsigned __int128;
  static constexpr double scale = 4294967296.0;

  Bits bits_ = 0;
};

}  // namespace dropless
