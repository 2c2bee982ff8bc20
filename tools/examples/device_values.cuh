// What the GPU example needs beside dropless: device vectors that hold bf16 values, and relu over them.
#pragma once
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstdint>
#include <vector>

#include "dropless/float16.hpp"
#include "dropless/stream.hpp"

namespace toy {

using DeviceValues = thrust::device_vector<std::uint16_t>;  // bf16 bit patterns

template <class T>
T* pointer(thrust::device_vector<T>& values) {
  return thrust::raw_pointer_cast(values.data());
}

inline DeviceValues to_device(const std::vector<float>& values) {
  thrust::host_vector<std::uint16_t> patterns;
  for (const float value : values) patterns.push_back(dropless::bf16_from_float(value));
  return patterns;
}

/// Waits for the device.
inline std::vector<float> to_host(const DeviceValues& values) {
  cudaDeviceSynchronize();
  std::vector<float> result;
  for (const std::uint16_t pattern : thrust::host_vector<std::uint16_t>(values))
    result.push_back(dropless::float_from_bf16(pattern));
  return result;
}

inline __global__ void relu_kernel(std::uint16_t* values, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && values[i] >= 0x8000) values[i] = 0;  // the sign is the highest bit
}

inline void relu(void* values, std::int64_t count, dropless::Stream stream) {
  relu_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(
      static_cast<std::uint16_t*>(values), count);
}

}  // namespace toy
