// Launching a persistent Hopper kernel: its shared memory is allowed once for each device, and the launch
// lets the kernel set itself up while the kernels before it in the stream still run.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda_check.hpp"
#include "dropless/stream.hpp"

namespace dropless::sm90 {

template <class... Parameters, class... Arguments>
void launch_persistent(void (*kernel)(Parameters...), std::uint32_t blocks, std::uint32_t threads,
                       std::uint32_t shared_bytes, Stream stream, const Arguments&... arguments) {
  DROPLESS_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(shared_bytes)));
  cudaLaunchAttribute early_start;
  early_start.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early_start.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &early_start;
  config.numAttrs = 1;
  DROPLESS_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

}  // namespace dropless::sm90
