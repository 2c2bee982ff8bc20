// One entry for each device, filled at its first use.
#include "device_properties.hpp"

#include <map>
#include <mutex>

#include "cuda_check.hpp"

namespace dropless {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  DROPLESS_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, device));
  return value;
}

DeviceProperties query(int device) {
  DeviceProperties properties;
  properties.compute_capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                                  attribute(cudaDevAttrComputeCapabilityMinor, device);
  properties.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device);
  return properties;
}

}  // namespace

const DeviceProperties& current_device_properties() {
  static std::mutex mutex;
  static std::map<int, DeviceProperties> devices;  // nodes never move, so references stay valid
  int device = 0;
  DROPLESS_CUDA_CHECK(cudaGetDevice(&device));
  const std::lock_guard<std::mutex> lock(mutex);
  const auto found = devices.find(device);
  return found != devices.end() ? found->second : devices.emplace(device, query(device)).first->second;
}

}  // namespace dropless
