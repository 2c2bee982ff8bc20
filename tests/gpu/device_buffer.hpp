// Device memory for tests: guard bytes before and after, contents poisoned with NaN bytes, and a check that
// nobody wrote outside.
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "cuda_check.hpp"

namespace dropless::test {

/// `size` elements of T on the device, 256-byte aligned between two guards. Every byte starts as 0xff: a NaN
/// in bf16, fp16 and float, -1 in integers.
template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    DROPLESS_CUDA_CHECK(cudaMalloc(reinterpret_cast<void**>(&memory_), total_bytes()));
    poison();
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) { upload(values); }
  ~DeviceBuffer() { cudaFree(memory_); }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  T* data() const { return reinterpret_cast<T*>(memory_ + guard_bytes); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }

  /// Everything back to 0xff, guards to their pattern; waits for the device.
  void poison() {
    DROPLESS_CUDA_CHECK(cudaMemset(memory_, guard_value, total_bytes()));
    if (bytes() != 0) DROPLESS_CUDA_CHECK(cudaMemset(data(), 0xff, bytes()));
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
  }
  /// Waits for the copy: a stream that does not block on the default stream would not.
  void upload(const std::vector<T>& values) {
    if (bytes() != 0) DROPLESS_CUDA_CHECK(cudaMemcpy(data(), values.data(), bytes(), cudaMemcpyHostToDevice));
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
  }
  /// Waits for the device, then copies everything back.
  std::vector<T> download() const {
    std::vector<T> values(size_);
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
    if (bytes() != 0) DROPLESS_CUDA_CHECK(cudaMemcpy(values.data(), data(), bytes(), cudaMemcpyDeviceToHost));
    return values;
  }
  /// Whether both guards still hold their pattern; waits for the device.
  bool guards_intact() const {
    std::vector<unsigned char> guards(2 * guard_bytes);
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
    DROPLESS_CUDA_CHECK(cudaMemcpy(guards.data(), memory_, guard_bytes, cudaMemcpyDeviceToHost));
    DROPLESS_CUDA_CHECK(cudaMemcpy(guards.data() + guard_bytes, memory_ + guard_bytes + bytes(), guard_bytes,
                                   cudaMemcpyDeviceToHost));
    return std::all_of(guards.begin(), guards.end(), [](unsigned char byte) { return byte == guard_value; });
  }

 private:
  static constexpr std::size_t guard_bytes = 1024;
  static constexpr unsigned char guard_value = 0xa5;
  std::size_t total_bytes() const { return bytes() + 2 * guard_bytes; }

  unsigned char* memory_ = nullptr;
  std::size_t size_ = 0;
};

/// `count` elements at a device address, copied to the host after waiting for the device.
template <class T>
std::vector<T> download(const T* device, std::size_t count) {
  std::vector<T> values(count);
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
  if (count != 0)
    DROPLESS_CUDA_CHECK(cudaMemcpy(values.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return values;
}

}  // namespace dropless::test
