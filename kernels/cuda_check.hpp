// Turns a failed CUDA call into a CudaError that quotes the call.
#pragma once
#include <cuda_runtime_api.h>

#include "dropless/error.hpp"

/// Evaluates a CUDA runtime call; throws CudaError with its text where it did not succeed.
#define DROPLESS_CUDA_CHECK(call)                                                   \
  do {                                                                              \
    if (const cudaError_t dropless_error_ = (call); dropless_error_ != cudaSuccess) \
      throw ::dropless::CudaError(#call, ::cudaGetErrorName(dropless_error_));      \
  } while (false)

namespace dropless {

/// After a `<<<...>>>` launch: throws CudaError naming the kernel where the launch itself was refused.
inline void check_launch(const char* kernel) {
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess)
    throw CudaError(std::string("launch of ") + kernel, cudaGetErrorName(error));
}

}  // namespace dropless
