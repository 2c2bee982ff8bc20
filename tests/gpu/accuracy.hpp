// How far a product may be from its double-precision reference: relative Frobenius error 5e-3 (bf16), 1e-3
// (fp16) or 1e-5 (float), and for each element |error| <= u |reference| + 1e-5 (|A| |B|), u = 2^-8, 2^-11, 0.
#pragma once
#include <cmath>
#include <cstdint>

#include "dropless/element_type.hpp"

namespace dropless::test {

/// The most that the Frobenius error of a product may be of its reference's norm. Float results of 16-bit
/// operands are held to that of float products: in each step of 16 values of k tensor cores cut the sum off
/// to the 24 bits of a float where a float product rounds it, so n steps cost about n * 2^-23 of it, and the
/// tests' experts with float gradients have no more than 400 rows, 25 steps.
inline double relative_error_limit(ElementType type) {
  return type == ElementType::bf16 ? 5e-3 : type == ElementType::fp16 ? 1e-3 : 1e-5;
}

/// Gathers the elements of one product: the relative Frobenius error, and how far the worst element is past
/// its own bound u |reference| + 1e-5 (|A| |B|).
class ProductAccuracy {
 public:
  explicit ProductAccuracy(ElementType type) : type_(type) {}

  void add(double actual, double reference, double magnitude) {
    const double error = std::abs(actual - reference);
    const double bound = unit() * std::abs(reference) + 1e-5 * magnitude + underflow();
    if (!(error <= bound)) ++elements_past_bound_;
    squared_error_ += error * error;
    squared_reference_ += reference * reference;
  }

  std::int64_t elements_past_bound() const { return elements_past_bound_; }
  double relative_error() const {
    return squared_reference_ == 0 ? std::sqrt(squared_error_)
                                   : std::sqrt(squared_error_ / squared_reference_);
  }
  double relative_error_limit() const { return test::relative_error_limit(type_); }

 private:
  double unit() const {
    return type_ == ElementType::bf16 ? 0x1p-8 : type_ == ElementType::fp16 ? 0x1p-11 : 0.0;
  }
  /// fp16 has no finer steps than 2^-24, so a result below its normal range may be off by half of one.
  double underflow() const { return type_ == ElementType::fp16 ? 0x1p-25 : 0.0; }

  ElementType type_;
  std::int64_t elements_past_bound_ = 0;
  double squared_error_ = 0, squared_reference_ = 0;
};

}  // namespace dropless::test
