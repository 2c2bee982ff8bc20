// Encodes tensor maps through the driver's entry point, so that nothing links the driver library.
#include "sm90/tensor_map.hpp"

#include <cuda_runtime_api.h>

#include <string>

#include "cuda_check.hpp"
#include "sm90/ragged_map.hpp"

namespace dropless::sm90 {
namespace {

template <class Function>
Function* driver_function(const char* name) {
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  DROPLESS_CUDA_CHECK(cudaGetDriverEntryPointByVersion(name, &entry, 12000, cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess)
    throw CudaError(std::string("cudaGetDriverEntryPointByVersion of ") + name, "no such entry point");
  return reinterpret_cast<Function*>(entry);
}

/// Gives this host thread the current device's context where it has none: the driver's own calls want one,
/// and the runtime makes it no earlier than a call needs it.
void require_context() {
  static const auto current = driver_function<decltype(cuCtxGetCurrent)>("cuCtxGetCurrent");
  CUcontext context = nullptr;
  if (current(&context) == CUDA_SUCCESS && context != nullptr) return;
  int device = 0;
  DROPLESS_CUDA_CHECK(cudaGetDevice(&device));
  DROPLESS_CUDA_CHECK(cudaSetDevice(device));
}

template <int rank>
CUtensorMap encode_map(const void* data, ElementType type, const cuuint64_t (&extents)[rank],
                       const cuuint64_t (&strides)[rank - 1], const cuuint32_t (&box)[rank],
                       L2Fetch fetch = L2Fetch::bytes_256) {
  cuuint32_t steps[rank];
  for (auto& step : steps) step = 1;
  CUtensorMap map;
  static const auto encode = driver_function<decltype(cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  require_context();
  const CUresult result = encode(
      &map, type == ElementType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
      rank, const_cast<void*>(data), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B,
      fetch == L2Fetch::bytes_128 ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw CudaError("cuTensorMapEncodeTiled", "CUresult " + std::to_string(result));
  return map;
}

cuuint64_t bytes(std::int64_t elements, ElementType type) {
  return static_cast<cuuint64_t>(elements * element_bytes(type));
}

}  // namespace

bool addressable(const void* data, std::int64_t leading_dimension, ElementType type) {
  const std::int64_t pitch = leading_dimension * element_bytes(type);
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && pitch % 16 == 0 && pitch < ragged_wrap_bytes;
}

CUtensorMap ragged_map(const void* data, std::int64_t columns, std::int64_t leading_dimension,
                       ElementType type, std::uint32_t box_rows) {
  const cuuint64_t pitch = bytes(leading_dimension, type);
  return encode_map<4>(data, type, {cuuint64_t(columns), ragged_rows, ragged_origins, ragged_origins},
                       {pitch, pitch, ragged_wrap_bytes - pitch}, {64, box_rows, 1, 1});
}

CUtensorMap matrix_map(const void* data, std::int64_t columns, std::int64_t rows, std::int64_t matrices,
                       std::int64_t leading_dimension, std::int64_t matrix_stride, ElementType type,
                       L2Fetch fetch) {
  if (matrices == 1)
    matrix_stride = rows * leading_dimension;  // never used, but the encoder wants a real stride
  return encode_map<3>(data, type, {cuuint64_t(columns), cuuint64_t(rows), cuuint64_t(matrices)},
                       {bytes(leading_dimension, type), bytes(matrix_stride, type)}, {64, 64, 1}, fetch);
}

CUtensorMap wide_box_map(const void* data, std::int64_t columns, std::int64_t rows, std::int64_t matrices,
                         std::int64_t leading_dimension, std::int64_t matrix_stride, ElementType type) {
  if (matrices == 1) matrix_stride = rows * leading_dimension;
  return encode_map<5>(data, type,
                       {64, 8, cuuint64_t(columns / 64), cuuint64_t(rows / 8), cuuint64_t(matrices)},
                       {bytes(leading_dimension, type), bytes(64, type), bytes(8 * leading_dimension, type),
                        bytes(matrix_stride, type)},
                       {64, 8, 4, 8, 1});
}

}  // namespace dropless::sm90
