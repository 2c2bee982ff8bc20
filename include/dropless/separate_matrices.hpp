// Experts' matrices that lie in allocations of their own: prepared once, when a model is loaded, for every
// product over them. The pointers, and on Hopper a tensor map of each matrix, go to device memory; no product
// then copies or encodes anything for them.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/array_view.hpp"
#include "dropless/element_type.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// What is known of separate matrices [rows, columns], row-major and `leading_dimension` elements apart, and
/// their tensor maps in device memory. A product refuses maps of another shape than its own.
struct MatrixMaps {
  const void* maps = nullptr;  ///< device, 384 bytes a matrix; null: none, and products run the portable path
  std::int64_t rows = 0, columns = 0;
  std::int64_t leading_dimension = 0;
  ElementType type = ElementType::bf16;
  /// Whether every matrix begins at a multiple of 16 bytes; where one does not, weights are read element by
  /// element. Of matrices that were never prepared it is the caller's promise.
  bool on_16_bytes = true;
};

/// What WeightTensor and ExpertGradients carry for separate tensors.
struct SeparateMatrices {
  void* const* matrices = nullptr;  ///< device [experts]
  MatrixMaps maps;
};

/// Device bytes that prepare_separate_matrices fills.
std::size_t separate_matrices_bytes(std::int64_t experts);

/// Prepares matrices[e], each [rows, columns] as it is stored (weights k_by_n: k rows, n_by_k: n rows; with
/// `second` half of the d_ff side), to be read as weights in either order or written as gradients:
/// weights.first = {nullptr, 0, prepared.matrices, prepared.maps}. `matrices` is a host array, read during
/// the call. `memory` (device, 64-byte aligned) stays the caller's and must outlive the result; the matrices
/// may change their values, not their addresses. There are no maps where this GPU is not of compute
/// capability 9.0, the type is float, or an address or the leading dimension is no multiple of 16 bytes;
/// products then run the portable path. Enqueues copies on `stream` and waits for it: a call for load time,
/// not for a capture. Throws Error for matrices that are null or not aligned to an element, no rows or
/// columns, a leading dimension below the columns and short memory.
SeparateMatrices prepare_separate_matrices(ArrayView<void* const> matrices, std::int64_t rows,
                                           std::int64_t columns, std::int64_t leading_dimension,
                                           ElementType type, void* memory, std::size_t memory_bytes,
                                           Stream stream);

}  // namespace dropless
