// The element types that operands may have, as a run-time value; scaled types would join this list.
#pragma once
#include <cstdint>
#include <string>

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

/// The type of that name, or of its longer name elsewhere (bfloat16, float16, float32); throws Error for any
/// other word.
inline ElementType element_from_name(const std::string& name) {
  if (name == "bf16" || name == "bfloat16") return ElementType::bf16;
  if (name == "fp16" || name == "float16") return ElementType::fp16;
  if (name == "fp32" || name == "float32") return ElementType::fp32;
  throw Error("element type", name, "bf16, fp16 or fp32");
}

}  // namespace dropless
