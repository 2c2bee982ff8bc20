// Launching a kernel so that it may start while the kernel before it in the stream still runs (programmatic
// dependent launch), where the GPU has that.
#pragma once
#include "cuda_check.hpp"
#include "device_properties.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// Lets the next kernel of the stream be scheduled now, if it was launched to overlap.
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/// Waits until the kernel before this one has ended and its writes are visible. A kernel launched to overlap
/// must call it before it touches anything that earlier kernels write.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

enum class LaunchOrder { after_previous, overlap_previous };

/// The thread blocks of a launch. `cluster_size` of them that follow one another along x form a cluster;
/// above one it divides their number there, and the GPU must have clusters.
struct Grid {
  Grid(unsigned count, unsigned blocks_of_a_cluster = 1) : blocks(count), cluster_size(blocks_of_a_cluster) {}
  Grid(dim3 extent) : blocks(extent) {}

  dim3 blocks;
  unsigned cluster_size = 1;
};

/// Launches `kernel`; throws CudaError naming it. Overlap is asked for on compute capability 9.x alone: a
/// newer GPU runs the portable code, in which the two calls above are empty.
template <class... Parameters, class... Arguments>
void launch(const char* name, void (*kernel)(Parameters...), Grid grid, dim3 block, std::size_t shared_bytes,
            Stream stream, LaunchOrder order, const Arguments&... arguments) {
  if (shared_bytes > 48 * 1024)
    DROPLESS_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                             static_cast<int>(shared_bytes)));
  cudaLaunchAttribute attributes[2]{};
  unsigned attribute_count = 0;
  if (order == LaunchOrder::overlap_previous && current_device_properties().compute_capability / 10 == 9) {
    cudaLaunchAttribute& overlap = attributes[attribute_count++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (grid.cluster_size > 1) {
    cudaLaunchAttribute& clusters = attributes[attribute_count++];
    clusters.id = cudaLaunchAttributeClusterDimension;
    clusters.val.clusterDim = {grid.cluster_size, 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = attribute_count;
  if (const cudaError_t error = cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
      error != cudaSuccess)
    throw CudaError(std::string("launch of ") + name, cudaGetErrorName(error));
}

}  // namespace dropless
