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

}  // namespace dropless
