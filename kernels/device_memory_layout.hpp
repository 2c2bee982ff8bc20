// Lays arrays one behind the other in memory that a caller brings: the same code sizes the memory and hands
// out the pointers, so the two cannot disagree.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

class DeviceMemoryLayout {
 public:
  /// Over no memory: only counts bytes, and every array is a null pointer.
  DeviceMemoryLayout() = default;
  /// Over the caller's memory; throws Error naming `argument` where it is not 16-byte aligned, or null or
  /// shorter than `needed`. No memory is asked for where nothing is needed.
  DeviceMemoryLayout(void* memory, std::size_t bytes, std::size_t needed, const char* argument)
      : memory_(static_cast<unsigned char*>(memory)) {
    if (bytes < needed)
      throw Error(std::string(argument) + "_bytes", std::to_string(bytes),
                  "at least " + std::to_string(needed) + " bytes");
    if (needed != 0 && memory == nullptr) throw Error(argument, "null", "device memory");
    if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0)
      throw Error(argument, "not aligned", "a multiple of 16 bytes");
  }

  /// The next `count` elements, 16-byte aligned.
  template <class T>
  T* array(std::int64_t count) {
    T* const result = memory_ == nullptr ? nullptr : reinterpret_cast<T*>(memory_ + used_);
    const std::int64_t bytes = checked_product(count, sizeof(T), "bytes of device memory");
    used_ += static_cast<std::size_t>(round_up(bytes, alignment));
    return result;
  }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::int64_t alignment = 16;
  unsigned char* memory_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace dropless
