// Separate matrices, prepared at load time: checked, then their pointers and tensor maps copied to the
// device.
#include "dropless/separate_matrices.hpp"

#include <cuda_runtime_api.h>

#include <vector>

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
  return {layout.array<CUtensorMap>(experts), layout.array<void*>(experts)};
}

void check_matrices(ArrayView<void* const> matrices, std::int64_t rows, std::int64_t columns,
                    std::int64_t leading_dimension, ElementType type) {
  if (rows < 1) throw Error("rows", std::to_string(rows), "1 or more");
  if (columns < 1) throw Error("columns", std::to_string(columns), "1 or more");
  if (leading_dimension < columns)
    throw Error("leading_dimension", std::to_string(leading_dimension),
                "at least the " + std::to_string(columns) + " columns");
  checked_product(checked_product(rows, leading_dimension, "rows * leading_dimension"), element_bytes(type),
                  "bytes of a matrix");
  for (std::size_t e = 0; e < matrices.size(); ++e) {
    const std::string name = "matrices[" + std::to_string(e) + "]";
    if (matrices[e] == nullptr) throw Error(name, "null", "device memory");
    if (reinterpret_cast<std::uintptr_t>(matrices[e]) % static_cast<std::uintptr_t>(element_bytes(type)) != 0)
      throw Error(name, "misaligned", "a multiple of the element's bytes");
  }
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
  if (experts < 0) throw Error("experts", std::to_string(experts), "0 or more");
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

  std::vector<CUtensorMap> maps;
  if (type != ElementType::fp32 && current_device_properties().compute_capability == 90 &&
      all_addressable(matrices, leading_dimension, type)) {
    for (const void* matrix : matrices)
      maps.push_back(sm90::matrix_map(matrix, columns, rows, 1, leading_dimension, 0, type));
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
