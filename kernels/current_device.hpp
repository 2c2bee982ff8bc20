// Refuses rows, topologies and patterns that lie in the memory of another GPU.
#pragma once
#include <string>

#include "cuda_check.hpp"

namespace dropless {

/// Throws Error where `pointer` is memory of a GPU other than the current one. Null is fine, and so is memory
/// that belongs to no one GPU.
inline void check_current_device(const void* pointer, const std::string& name) {
  if (pointer == nullptr) return;
  int current = 0;
  cudaPointerAttributes attributes{};
  DROPLESS_CUDA_CHECK(cudaGetDevice(&current));
  DROPLESS_CUDA_CHECK(cudaPointerGetAttributes(&attributes, pointer));
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != current)
    throw Error(name, "memory of device " + std::to_string(attributes.device),
                "memory of the current device, " + std::to_string(current));
}

}  // namespace dropless
