// A matrix product in double precision on the GPU, one thread an output element: slow, plain, and fast enough
// to check products too large for the CPU. test_dense_reference.cpp checks it against the CPU.
#pragma once
#include <cstdint>

#include "dropless/element_type.hpp"

namespace dropless::test {

/// A matrix in device memory: element (row, column) at data[row * row_stride + column * column_stride]. With
/// a block table it is block-sparse: the strides are those within a block of block x block values, and
/// block_table[row / block * table_row_stride + column / block * table_column_stride] is the block's index or
/// -1 for zeros.
struct ReferenceOperand {
  const void* data = nullptr;
  ElementType type = ElementType::fp32;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;
  const std::int32_t* block_table = nullptr;
  std::int64_t block = 1;
  std::int64_t table_row_stride = 0;
  std::int64_t table_column_stride = 1;
  std::int64_t first_row = 0, first_column = 0;  ///< the operand begins here ...
  std::int64_t row_step = 1;                     ///< ... and takes every row_step-th row
};

/// sums[i * n + j] = sum over k of a(i, k) b(k, j), and magnitudes the same of absolute values: device arrays
/// [m, n]. Runs on the default stream; does not wait.
void dense_reference(const ReferenceOperand& a, const ReferenceOperand& b, std::int64_t m, std::int64_t n,
                     std::int64_t k, double* sums, double* magnitudes);

}  // namespace dropless::test
