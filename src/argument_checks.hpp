// The refusals that calls on the CPU and on the GPU have in common: each throws an Error that names the
// argument, its value and what was expected of it.
#pragma once
#include <cstdint>
#include <limits>
#include <string>

#include "dropless/element_type.hpp"
#include "dropless/error.hpp"

namespace dropless {

inline constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();

inline void require(bool holds, const std::string& argument, const std::string& value,
                    const std::string& expectation) {
  if (!holds) throw Error(argument, value, expectation);
}

inline void require_at_least(std::int64_t value, std::int64_t low, const std::string& argument) {
  if (value < low) throw Error(argument, std::to_string(value), std::to_string(low) + " or more");
}

inline void require_between(std::int64_t value, std::int64_t low, std::int64_t high,
                            const std::string& argument) {
  if (value < low || value > high)
    throw Error(argument, std::to_string(value), std::to_string(low) + ".." + std::to_string(high));
}

inline void require_equal(std::int64_t value, std::int64_t expected, const std::string& argument) {
  if (value != expected) throw Error(argument, std::to_string(value), std::to_string(expected));
}

inline void require_type(ElementType type, ElementType expected, const std::string& argument) {
  if (type != expected) throw Error(argument, element_name(type), element_name(expected));
}

/// The size of the blocks of a block-sparse matrix.
inline void require_block(std::int64_t block, const std::string& argument) {
  if (block != 16 && block != 32 && block != 64 && block != 128)
    throw Error(argument, std::to_string(block), "16, 32, 64 or 128");
}

inline void require_leading_dimension(std::int64_t leading_dimension, std::int64_t columns,
                                      const std::string& argument) {
  if (leading_dimension < columns)
    throw Error(argument, std::to_string(leading_dimension),
                "at least the " + std::to_string(columns) + " columns");
}

/// Which memory a pointer has to point to.
inline constexpr const char *device_memory = "device memory", *host_memory = "host memory";

/// Memory of elements of `element_bytes` bytes, null only where nothing of it is `needed`.
inline void require_memory(const void* data, bool needed, std::int64_t element_bytes,
                           const std::string& argument, const char* kind = device_memory) {
  if (data == nullptr && needed) throw Error(argument, "null", kind);
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(element_bytes) != 0)
    throw Error(argument, "misaligned",
                "a multiple of the " + std::to_string(element_bytes) + " bytes of an element");
}

}  // namespace dropless
