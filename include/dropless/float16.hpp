// bfloat16 and IEEE half precision on the host, as bit patterns: for inputs, outputs and references of 16-bit
// products where no GPU is at hand.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

#include "dropless/element_type.hpp"

namespace dropless {

/// The bfloat16 nearest to `value`, ties to even; infinities stay, a NaN stays a (quiet) NaN.
inline std::uint16_t bf16_from_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

inline float float_from_bf16(std::uint16_t pattern) {
  const std::uint32_t bits = static_cast<std::uint32_t>(pattern) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// The half nearest to `value`, ties to even; from 65520 on it is infinity, a NaN stays a (quiet) NaN.
inline std::uint16_t fp16_from_float(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  const std::uint32_t sign = (bits >> 16) & 0x8000U, magnitude = bits & 0x7fffffffU;
  std::uint32_t half;
  if (magnitude > 0x7f800000U) {
    half = 0x7e00U | ((magnitude >> 13) & 0x3ffU);
  } else if (magnitude >= 0x477ff000U) {  // 65520, half way to the power of two past the largest half
    half = 0x7c00U;
  } else if (magnitude < 0x38800000U) {  // below 2^-14 halves are the multiples of 2^-24
    half = static_cast<std::uint32_t>(std::lrint(std::fabs(value) * 16777216.0F));
  } else {
    half = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | half);
}

inline float float_from_fp16(std::uint16_t pattern) {
  const int exponent = (pattern >> 10) & 0x1f;
  const float fraction = static_cast<float>(pattern & 0x3ff);
  float magnitude;
  if (exponent == 0x1f)
    magnitude = fraction == 0 ? HUGE_VALF : NAN;
  else
    magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024.0F, exponent - 25);
  return std::copysign(magnitude, (pattern & 0x8000) != 0 ? -1.0F : 1.0F);
}

/// A 16-bit element of `type` (bf16 or fp16) as its bit pattern, and back.
inline std::uint16_t pattern_from_float(ElementType type, float value) {
  return type == ElementType::bf16 ? bf16_from_float(value) : fp16_from_float(value);
}
inline float float_from_pattern(ElementType type, std::uint16_t pattern) {
  return type == ElementType::bf16 ? float_from_bf16(pattern) : float_from_fp16(pattern);
}

}  // namespace dropless
