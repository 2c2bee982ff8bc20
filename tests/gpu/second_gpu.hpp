// Calls made while another GPU is the current one than that of their operands.
#pragma once
#include <cuda_runtime_api.h>

#include "catch.hpp"
#include "cuda_check.hpp"

namespace dropless::test {

/// Calls `body()` with the second GPU current; says that it was skipped where there is none.
template <class Body>
void with_second_gpu_current(Body body) {
  int devices = 0;
  DROPLESS_CUDA_CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    WARN("skipped: needs two GPUs");
    return;
  }
  struct Current {
    Current() { DROPLESS_CUDA_CHECK(cudaSetDevice(1)); }
    ~Current() { cudaSetDevice(0); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  } const second;
  body();
}

}  // namespace dropless::test
