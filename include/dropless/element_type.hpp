// The element types that operands may have, as a run-time value; scaled types would join this list.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

enum class ElementType : std::int32_t { bf16 = 0, fp16 = 1, fp32 = 2 };

/// Bytes of one element.
DROPLESS_HOST_DEVICE constexpr std::int64_t element_bytes(ElementType type) {
  return type == ElementType::fp32 ? 4 : 2;
}

/// "bf16", "fp16" or "fp32".
constexpr const char* element_name(ElementType type) {
  return type == ElementType::bf16 ? "bf16" : type == ElementType::fp16 ? "fp16" : "fp32";
}

}  // namespace dropless
