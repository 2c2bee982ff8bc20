// The reference product's kernel.
#include "dense_reference.hpp"

#include "cuda_check.hpp"
#include "typed_element.cuh"

namespace dropless::test {
namespace {

__device__ double element(const ReferenceOperand& from, std::int64_t row, std::int64_t column) {
  row = from.first_row + row * from.row_step;
  column += from.first_column;
  std::int64_t base = 0;
  if (from.block_table != nullptr) {
    const std::int64_t q = from.block_table[row / from.block * from.table_row_stride +
                                            column / from.block * from.table_column_stride];
    if (q < 0) return 0.0;
    base = q * from.block * from.block;
    row %= from.block;
    column %= from.block;
  }
  return load_element(from.data, base + row * from.row_stride + column * from.column_stride, from.type);
}

__global__ void multiply(ReferenceOperand a, ReferenceOperand b, std::int64_t m, std::int64_t n,
                         std::int64_t k, double* sums, double* magnitudes) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (index >= m * n) return;
  double sum = 0, magnitude = 0;
  for (std::int64_t i = 0; i < k; ++i) {
    const double product = element(a, index / n, i) * element(b, i, index % n);
    sum += product;
    magnitude += fabs(product);
  }
  sums[index] = sum;
  magnitudes[index] = magnitude;
}

}  // namespace

void dense_reference(const ReferenceOperand& a, const ReferenceOperand& b, std::int64_t m, std::int64_t n,
                     std::int64_t k, double* sums, double* magnitudes) {
  if (m == 0 || n == 0) return;
  constexpr int threads = 256;
  multiply<<<static_cast<unsigned>((m * n + threads - 1) / threads), threads>>>(a, b, m, n, k, sums,
                                                                                magnitudes);
  check_launch("reference product");
}

}  // namespace dropless::test
