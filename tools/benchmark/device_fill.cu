// Random values and the distance between arrays, computed where the arrays are.
#include "device_fill.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <array>
#include <cmath>

#include "cuda_check.hpp"
#include "device_memory.hpp"
#include "device_properties.hpp"

namespace dropless::benchmark {
namespace {

constexpr int block_threads = 256;

int grid_blocks() { return 8 * current_device_properties().multiprocessors; }

__device__ float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float to_float(__half value) { return __half2float(value); }
__device__ void from_float(float value, __nv_bfloat16& out) { out = __float2bfloat16(value); }
__device__ void from_float(float value, __half& out) { out = __float2half(value); }

/// A bijection of 32-bit words that leaves no pattern between neighbours (the finaliser of MurmurHash3).
__device__ std::uint32_t mix(std::uint32_t word) {
  word = (word ^ (word >> 16)) * 0x85ebca6bu;
  word = (word ^ (word >> 13)) * 0xc2b2ae35u;
  return word ^ (word >> 16);
}

/// The sum of the four bytes of a random word, centred, is close to normal: each byte has the variance
/// (256^2 - 1) / 12.
template <class Element>
__global__ void __launch_bounds__(block_threads)
    fill(Element* data, std::int64_t elements, std::uint32_t seed, float standard_deviation) {
  const float scale = standard_deviation / sqrtf(4 * (256.0f * 256.0f - 1) / 12);
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < elements; i += stride) {
    const auto low = static_cast<std::uint32_t>(i), high = static_cast<std::uint32_t>(i >> 32);
    const std::uint32_t word = mix(low ^ mix(high ^ seed));
    const int sum = static_cast<int>(__dp4a(word, 0x01010101u, 0u));
    from_float(scale * static_cast<float>(sum - 510), data[i]);
  }
}

template <class Element>
__global__ void __launch_bounds__(block_threads)
    sum_squares(const Element* result, const Element* reference, std::int64_t elements, double* sums) {
  double difference_squares = 0, reference_squares = 0;
  const std::int64_t stride = std::int64_t{gridDim.x} * block_threads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * block_threads + threadIdx.x; i < elements; i += stride) {
    const float expected = to_float(reference[i]), difference = to_float(result[i]) - expected;
    difference_squares += static_cast<double>(difference) * difference;
    reference_squares += static_cast<double>(expected) * expected;
  }
  atomicAdd(&sums[0], difference_squares);
  atomicAdd(&sums[1], reference_squares);
}

/// Calls `visit` with a null pointer of the element's device type.
template <class Visit>
void with_element(ElementType type, Visit&& visit) {
  if (type == ElementType::bf16) return visit(static_cast<__nv_bfloat16*>(nullptr));
  if (type == ElementType::fp16) return visit(static_cast<__half*>(nullptr));
  throw Error("element type", element_name(type), "bf16 or fp16");
}

}  // namespace

void fill_random(void* data, std::int64_t elements, ElementType type, std::uint32_t seed,
                 float standard_deviation, Stream stream) {
  with_element(type, [&](auto* element) {
    fill<<<grid_blocks(), block_threads, 0, stream>>>(static_cast<decltype(element)>(data), elements, seed,
                                                      standard_deviation);
  });
  check_launch("fill");
}

double relative_error(const void* result, const void* reference, std::int64_t elements, ElementType type,
                      Stream stream) {
  std::array<double, 2> sums{};
  const DeviceMemory device_sums(sizeof(sums));
  DROPLESS_CUDA_CHECK(cudaMemsetAsync(device_sums.data(), 0, sizeof(sums), stream));
  with_element(type, [&](auto* element) {
    using Pointer = const std::remove_pointer_t<decltype(element)>*;
    sum_squares<<<grid_blocks(), block_threads, 0, stream>>>(static_cast<Pointer>(result),
                                                             static_cast<Pointer>(reference), elements,
                                                             static_cast<double*>(device_sums.data()));
  });
  check_launch("sum_squares");
  DROPLESS_CUDA_CHECK(
      cudaMemcpyAsync(sums.data(), device_sums.data(), sizeof(sums), cudaMemcpyDeviceToHost, stream));
  DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream));
  return std::sqrt(sums[0] / sums[1]);
}

}  // namespace dropless::benchmark
