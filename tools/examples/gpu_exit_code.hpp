// How an example ends that needs a GPU.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdio>

#include "exit_code.hpp"

/// As exit_code(), but 77, which ctest counts as skipped, where there is no GPU or no driver for it.
template <class Run>
int gpu_exit_code(Run run) {
  int gpus = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&gpus); error != cudaSuccess) {
    std::fprintf(stderr, "needs an NVIDIA GPU and its driver: %s\n", cudaGetErrorString(error));
    return 77;
  }
  return exit_code(run);
}
