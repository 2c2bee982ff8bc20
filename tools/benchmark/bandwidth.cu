// The copy is the driver's own; the read is a kernel with eight loads a thread in flight.
#include "bandwidth.hpp"

#include <cstddef>
#include <cstdint>

#include "cuda_check.hpp"
#include "device_fill.hpp"
#include "device_memory.hpp"
#include "device_properties.hpp"
#include "timing.hpp"

namespace dropless::benchmark {
namespace {

constexpr int block_threads = 512;
constexpr int loads_in_flight = 8;

/// Reads `vectors` 16-byte vectors. A thread's sum is stored only if it is one certain value of 2^32, so that
/// the loads cannot be left out and next to nothing is written.
__global__ void __launch_bounds__(block_threads)
    read_vectors(const uint4* source, std::int64_t vectors, std::uint32_t* hardly_written) {
  std::uint32_t sum = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x;
  for (; i + (loads_in_flight - 1) * stride < vectors; i += loads_in_flight * stride) {
    uint4 loaded[loads_in_flight];
#pragma unroll
    for (int j = 0; j < loads_in_flight; ++j) loaded[j] = __ldcs(source + i + j * stride);
#pragma unroll
    for (int j = 0; j < loads_in_flight; ++j) sum ^= loaded[j].x ^ loaded[j].y ^ loaded[j].z ^ loaded[j].w;
  }
  for (; i < vectors; i += stride) sum ^= source[i].x ^ source[i].y ^ source[i].z ^ source[i].w;
  if (sum == 0x55555555u) *hardly_written = sum;
}

}  // namespace

MemoryRates measure_memory_rates(Stream stream) {
  constexpr std::size_t bytes = std::size_t{1} << 31;
  const DeviceMemory source(bytes), target(bytes), hardly_written(sizeof(std::uint32_t));
  fill_random(source.data(), bytes / 2, ElementType::bf16, 1, 1.0f, stream);
  const int blocks = 4 * current_device_properties().multiprocessors;
  const Call copy = [&](std::int64_t) {
    DROPLESS_CUDA_CHECK(
        cudaMemcpyAsync(target.data(), source.data(), bytes, cudaMemcpyDeviceToDevice, stream));
  };
  const Call read = [&](std::int64_t) {
    read_vectors<<<blocks, block_threads, 0, stream>>>(static_cast<const uint4*>(source.data()),
                                                       bytes / sizeof(uint4),
                                                       static_cast<std::uint32_t*>(hardly_written.data()));
    check_launch("read_vectors");
  };
  const std::vector<Timing> timings =
      time_in_rotation({{"copy", copy}, {"read", read}}, RotationOptions{5, 4000}, stream);
  return {2.0 * bytes / timings[0].median_us * 1e-6, 1.0 * bytes / timings[1].median_us * 1e-6};
}

}  // namespace dropless::benchmark
