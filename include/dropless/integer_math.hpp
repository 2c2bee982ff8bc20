// Integer arithmetic that layouts, kernels and reports share: 64-bit, on host and device, never wrapping
// silently.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include "dropless/error.hpp"

#ifdef __CUDACC__
#define DROPLESS_HOST_DEVICE __host__ __device__
#else
#define DROPLESS_HOST_DEVICE
#endif

namespace dropless {

/// Smallest q with q * divisor >= value. value >= 0, divisor > 0.
DROPLESS_HOST_DEVICE constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t divisor) {
  return value / divisor + (value % divisor != 0);
}

/// value rounded up to a multiple of `multiple`. value >= 0, multiple > 0.
DROPLESS_HOST_DEVICE constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return ceil_div(value, multiple) * multiple;
}

/// a * b for a, b >= 0; throws Error naming `argument` where the product passes 2^63 - 1.
inline std::int64_t checked_product(std::int64_t a, std::int64_t b, const char* argument) {
  if (a != 0 && b > std::numeric_limits<std::int64_t>::max() / a)
    throw Error(argument, std::to_string(a) + " * " + std::to_string(b), "a product below 2^63");
  return a * b;
}

/// a + b for a, b >= 0; throws Error naming `argument` where the sum passes 2^63 - 1.
inline std::int64_t checked_sum(std::int64_t a, std::int64_t b, const char* argument) {
  if (b > std::numeric_limits<std::int64_t>::max() - a)
    throw Error(argument, std::to_string(a) + " + " + std::to_string(b), "a sum below 2^63");
  return a + b;
}

/// value as int32; throws Error naming `argument` where it does not fit.
inline std::int32_t checked_int32(std::int64_t value, const char* argument) {
  if (value < std::numeric_limits<std::int32_t>::min() || value > std::numeric_limits<std::int32_t>::max())
    throw Error(argument, std::to_string(value), "a value that fits int32");
  return static_cast<std::int32_t>(value);
}

}  // namespace dropless
