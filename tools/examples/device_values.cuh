// What the GPU examples need beside dropless: device vectors that hold bf16 values, and their way to and from
// the host.
#pragma once
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cstdint>
#include <vector>

#include "dropless/float16.hpp"

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
inline std::vector<float> to_host(const thrust::device_vector<float>& values) {
  cudaDeviceSynchronize();
  std::vector<float> result(values.size());
  thrust::copy(values.begin(), values.end(), result.begin());
  return result;
}

}  // namespace toy
