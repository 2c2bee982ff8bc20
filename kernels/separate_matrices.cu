// Separate matrices, prepared at load time: checked, then their pointers and tensor maps copied to the
// device.
#include "dropless/separate_matrices.hpp"

#include <cuda_runtime_api.h>

#include <vector>

#include "argument_checks.hpp"
#include "cuda_check.hpp"
#include "device_memory_layout.hpp"
#include "device_properties.hpp"
#include "sm90/tensor_map.hpp"

namespace dropless {
namespace {

struct Arrays {
  CUtensorMap* maps;
  void** matrices;
};

Arrays arrays_of(DeviceMemoryLayout& layout, std::int64_t experts) {
  return {layout.array<CUtensorMap>(sm90::maps_of_a_matrix * experts), layout.array<void*>(experts)};
}

void check_matrices(ArrayView<void* const> matrices, std::int64_t rows, std::int64_t columns,
                    std::int64_t leading_dimension, ElementType type) {
  require_at_least(rows, 1, "rows");
  require_at_least(columns, 1, "columns");
  require_leading_dimension(leading_dimension, columns, "leading_dimension");
  const std::int64_t bytes = element_bytes(type);
  checked_product(checked_product(rows, leading_dimension, "rows * leading_dimension"), bytes,
                  "bytes of a matrix");
  for (std::size_t e = 0; e < matrices.size(); ++e)
    require_memory(matrices[e], true, bytes, "matrices[" + std::to_string(e) + "]");
}

bool all_on_16_bytes(ArrayView<void* const> matrices) {
  for (const void* matrix : matrices)
    if (reinterpret_cast<std::uintptr_t>(matrix) % 16 != 0) return false;
  return true;
}

bool all_addressable(ArrayView<void* const> matrices, std::int64_t leading_dimension, ElementType type) {
  for (const void* matrix : matrices)
    if (!sm90::addressable(matrix, leading_dimension, type)) return false;
  return true;
}

}  // namespace

std::size_t separate_matrices_bytes(std::int64_t experts) {
  require_at_least(experts, 0, "experts");
  DeviceMemoryLayout layout;
  arrays_of(layout, experts);
  return layout.used();
}

SeparateMatrices prepare_separate_matrices(ArrayView<void* const> matrices, std::int64_t rows,
                                           std::int64_t columns, std::int64_t leading_dimension,
                                           ElementType type, void* memory, std::size_t memory_bytes,
                                           Stream stream) {
  check_matrices(matrices, rows, columns, leading_dimension, type);
  const auto experts = static_cast<std::int64_t>(matrices.size());
  DeviceMemoryLayout layout(memory, memory_bytes, separate_matrices_bytes(experts), "memory");
  if (reinterpret_cast<std::uintptr_t>(memory) % alignof(CUtensorMap) != 0)
    throw Error("memory", "not aligned", "a multiple of 64 bytes");
  if (experts == 0) return {};
  const Arrays arrays = arrays_of(layout, experts);
  SeparateMatrices result{arrays.matrices,
                          {nullptr, rows, columns, leading_dimension, type, all_on_16_bytes(matrices)}};

  std::vector<CUtensorMap> maps(static_cast<std::size_t>(sm90::maps_of_a_matrix * experts));
  if (type != ElementType::fp32 && current_device_properties().compute_capability == 90 &&
      all_addressable(matrices, leading_dimension, type)) {
    CUtensorMap* next = maps.data();
    for (const void* matrix : matrices) {
      const auto map = [&](sm90::L2Fetch fetch) {
        return sm90::matrix_map(matrix, columns, rows, 1, leading_dimension, 0, type, fetch);
      };
      next[sm90::fetch_256_map] = map(sm90::L2Fetch::bytes_256);
      next[sm90::fetch_128_map] = map(sm90::L2Fetch::bytes_128);
      if (sm90::fit_wide_boxes(columns, rows))
        next[sm90::wide_map] = sm90::wide_box_map(matrix, columns, rows, 1, leading_dimension, 0, type);
      next += sm90::maps_of_a_matrix;
    }
    result.maps.maps = arrays.maps;
    DROPLESS_CUDA_CHECK(cudaMemcpyAsync(arrays.maps, maps.data(), maps.size() * sizeof(CUtensorMap),
                                        cudaMemcpyHostToDevice, stream));
  }
  DROPLESS_CUDA_CHECK(cudaMemcpyAsync(arrays.matrices, matrices.data(), matrices.size() * sizeof(void*),
                                      cudaMemcpyHostToDevice, stream));
  DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream));
  return result;
}

}  // namespace dropless
