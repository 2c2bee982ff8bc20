// Between the 16-bit element types and float, by overload; rounding is to nearest even.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace dropless {

__host__ __device__ inline float to_float(float value) { return value; }
__host__ __device__ inline float to_float(__half value) { return __half2float(value); }
__host__ __device__ inline float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class Element>
__host__ __device__ inline Element from_float(float value);
template <>
__host__ __device__ inline float from_float<float>(float value) {
  return value;
}
template <>
__host__ __device__ inline __half from_float<__half>(float value) {
  return __float2half_rn(value);
}
template <>
__host__ __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float value) {
  return __float2bfloat16_rn(value);
}

/// The bits of two 16-bit elements side by side, `low` in the lower half: one instruction for both.
template <class Element>
__device__ inline unsigned pair_from_floats(float low, float high);
template <>
__device__ inline unsigned pair_from_floats<__half>(float low, float high) {
  unsigned pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
template <>
__device__ inline unsigned pair_from_floats<__nv_bfloat16>(float low, float high) {
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

}  // namespace dropless
