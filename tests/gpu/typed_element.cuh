// An element whose type is known at run time only, for kernels that need not be fast.
#pragma once
#include "dropless/element_type.hpp"
#include "element_conversion.cuh"

namespace dropless::test {

__device__ inline double load_element(const void* data, std::int64_t index, ElementType type) {
  switch (type) {
    case ElementType::bf16:
      return to_float(static_cast<const __nv_bfloat16*>(data)[index]);
    case ElementType::fp16:
      return to_float(static_cast<const __half*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

}  // namespace dropless::test
