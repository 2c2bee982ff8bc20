// Block-sparse matrices written out as dense ones and gathered back: elements move as bit patterns.
#include "block_sparse_checks.hpp"
#include "current_device.hpp"
#include "launch.cuh"

namespace dropless {
namespace {

constexpr int threads = 256;

/// A dense matrix by strides, in elements.
template <class Element>
struct StridedMatrix {
  Element* data;
  std::int64_t row_stride, column_stride;
};

/// Calls visit(offset within the block's values, offset within the dense matrix) for each element of a block,
/// neighbouring threads on neighbouring dense elements.
template <class Element, class Visit>
__device__ void for_each_element(int block, const StridedMatrix<Element>& dense, std::int64_t block_row,
                                 std::int64_t block_column, Visit visit) {
  const bool by_columns = dense.row_stride == 1 && dense.column_stride != 1;
  for (int index = static_cast<int>(threadIdx.x); index < block * block; index += threads) {
    const int outer = index / block, inner = index % block;
    const int i = by_columns ? inner : outer, j = by_columns ? outer : inner;
    visit(i * block + j,
          (block_row * block + i) * dense.row_stride + (block_column * block + j) * dense.column_stride);
  }
}

/// Thread blocks: one for each block position of the dense matrix, zero or not.
template <class Element>
__global__ void __launch_bounds__(threads)
    scatter_blocks(const Element* __restrict__ values, int block, std::int64_t block_columns,
                   const std::int32_t* __restrict__ offsets, const std::int32_t* __restrict__ column_indices,
                   const BlockCounts* __restrict__ counts, StridedMatrix<Element> dense) {
  const std::int64_t row = blockIdx.x / block_columns, column = blockIdx.x % block_columns;
  if (counts != nullptr && row >= counts->block_rows) return;
  // The first block of the row that is not left of this column.
  std::int32_t first = offsets[row], end = offsets[row + 1];
  const std::int32_t row_end = end;
  while (first < end) {
    const std::int32_t middle = first + (end - first) / 2;
    if (column_indices[middle] < column)
      first = middle + 1;
    else
      end = middle;
  }
  const bool present = first < row_end && column_indices[first] == column;
  const Element* source = values + (present ? static_cast<std::int64_t>(first) * block * block : 0);
  for_each_element(block, dense, row, column, [&](int in_block, std::int64_t in_dense) {
    dense.data[in_dense] = present ? source[in_block] : Element{0};
  });
}

/// Thread blocks: one for each block of the pattern.
template <class Element>
__global__ void __launch_bounds__(threads)
    gather_blocks(StridedMatrix<const Element> dense, int block, const std::int32_t* __restrict__ row_indices,
                  const std::int32_t* __restrict__ column_indices, const BlockCounts* __restrict__ counts,
                  Element* __restrict__ values) {
  const std::int64_t q = blockIdx.x;
  if (counts != nullptr && q >= counts->nonzero_blocks) return;
  Element* target = values + q * block * block;
  for_each_element(block, dense, row_indices[q], column_indices[q],
                   [&](int in_block, std::int64_t in_dense) { target[in_block] = dense.data[in_dense]; });
}

template <class Element, class Bits>
StridedMatrix<Bits> strided(const DenseMatrix& matrix, bool transposed) {
  auto* data = static_cast<Element*>(matrix.data);
  if (matrix.transposed != transposed) return {data, 1, matrix.leading_dimension};
  return {data, matrix.leading_dimension, 1};
}

template <class Element>
void scatter(const BlockSparseMatrix& matrix, const DenseMatrix& out, Stream stream) {
  const std::int64_t columns = matrix.columns / matrix.block;
  const std::int64_t positions = matrix.rows / matrix.block * columns;
  if (positions == 0) return;
  launch("scatter_blocks", scatter_blocks<Element>,
         dim3(static_cast<unsigned>(checked_int32(positions, "blocks of the dense matrix"))), dim3(threads),
         0, stream, LaunchOrder::after_previous, static_cast<const Element*>(matrix.values),
         static_cast<int>(matrix.block), columns, matrix.offsets, matrix.column_indices, matrix.counts,
         strided<Element, Element>(out, matrix.transposed));
}

template <class Element>
void gather(const DenseMatrix& matrix, const BlockSparseMatrix& out, Stream stream) {
  if (out.nonzero_blocks == 0) return;
  launch("gather_blocks", gather_blocks<Element>, dim3(static_cast<unsigned>(out.nonzero_blocks)),
         dim3(threads), 0, stream, LaunchOrder::after_previous,
         strided<Element, const Element>(matrix, out.transposed), static_cast<int>(out.block),
         out.row_indices, out.column_indices, out.counts, static_cast<Element*>(out.values));
}

}  // namespace

void to_dense(const BlockSparseMatrix& matrix, const DenseMatrix& out, Stream stream) {
  check_to_dense(matrix, out);
  check_current_device(matrix.offsets, "matrix.offsets");
  if (element_bytes(out.type) == 2)
    scatter<std::uint16_t>(matrix, out, stream);
  else
    scatter<std::uint32_t>(matrix, out, stream);
}

void from_dense(const DenseMatrix& matrix, const BlockSparseMatrix& out, Stream stream) {
  check_from_dense(matrix, out);
  check_current_device(out.row_indices, "out.row_indices");
  if (element_bytes(out.type) == 2)
    gather<std::uint16_t>(matrix, out, stream);
  else
    gather<std::uint32_t>(matrix, out, stream);
}

}  // namespace dropless
