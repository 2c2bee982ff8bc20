// What launches need to know about the current GPU, asked once for each device and remembered.
#pragma once
#include <cstdint>

namespace dropless {

struct DeviceProperties {
  int compute_capability = 0;  ///< 10 * major + minor: 90 for Hopper
  int multiprocessors = 0;
};

/// Properties of the calling thread's current device. Thread-safe; allowed while a stream is being captured.
/// Throws CudaError where there is no device.
const DeviceProperties& current_device_properties();

/// Multiprocessors of the current device, `limit` of them at most where that is above zero.
inline int multiprocessors_within(std::int32_t limit) {
  const int all = current_device_properties().multiprocessors;
  return limit > 0 && limit < all ? limit : all;
}

}  // namespace dropless
