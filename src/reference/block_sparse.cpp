// Block-sparse products by plain loops over strided views: a transpose is an exchange of strides, so each
// product is written once.
#include <string>
#include <utility>

#include "dropless/block_sparse_reference.hpp"
#include "operand_spans.hpp"

namespace dropless {
namespace {

/// A dense matrix after its transpose.
template <class T>
struct Strided {
  T* data;
  std::int64_t rows, columns, row_stride, column_stride;
  T& operator()(std::int64_t row, std::int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

template <class T>
MatrixSpan checked_span(const HostDenseMatrix<T>& matrix, const std::string& name) {
  require_at_least(matrix.rows, 0, name + ".rows");
  require_at_least(matrix.columns, 0, name + ".columns");
  return matrix_span(name, matrix.data, matrix.rows, matrix.columns, matrix.leading_dimension, sizeof(T),
                     host_memory);
}

template <class T>
Strided<T> strided(const HostDenseMatrix<T>& matrix) {
  if (matrix.transposed) return {matrix.data, matrix.columns, matrix.rows, 1, matrix.leading_dimension};
  return {matrix.data, matrix.rows, matrix.columns, matrix.leading_dimension, 1};
}

template <class T>
Strided<T> transposed(Strided<T> matrix) {
  std::swap(matrix.rows, matrix.columns);
  std::swap(matrix.row_stride, matrix.column_stride);
  return matrix;
}

/// A block-sparse matrix after its transpose.
template <class T>
struct Blocks {
  const BlockTopology* topology;
  T* values;
  bool transposed;

  std::int64_t block() const { return topology->block; }
  std::int64_t block_rows() const { return transposed ? topology->block_columns : topology->block_rows; }
  std::int64_t block_columns() const { return transposed ? topology->block_rows : topology->block_columns; }
  std::int64_t row_of(std::size_t q) const {
    return (transposed ? topology->column_indices : topology->row_indices)[q];
  }
  std::int64_t column_of(std::size_t q) const {
    return (transposed ? topology->row_indices : topology->column_indices)[q];
  }
  /// Element (i, j) of block q.
  T& operator()(std::size_t q, std::int64_t i, std::int64_t j) const {
    if (transposed) std::swap(i, j);
    return values[(static_cast<std::int64_t>(q) * block() + i) * block() + j];
  }
  /// Calls visit(q, block column) for the blocks of a block row, by ascending column.
  template <class Visit>
  void for_each_in_row(std::int64_t row, Visit visit) const {
    const auto r = static_cast<std::size_t>(row);
    const auto& offsets = transposed ? topology->offsets_transposed : topology->offsets;
    for (auto i = static_cast<std::size_t>(offsets[r]); i < static_cast<std::size_t>(offsets[r + 1]); ++i)
      if (transposed)
        visit(static_cast<std::size_t>(topology->block_offsets_transposed[i]),
              std::int64_t{topology->column_indices_transposed[i]});
      else
        visit(i, std::int64_t{topology->column_indices[i]});
  }
};

template <class T>
MatrixSpan checked_span(const HostBlockSparseMatrix<T>& matrix, const std::string& name) {
  require(matrix.topology != nullptr, name + ".topology", "null", "a topology");
  const BlockTopology& topology = *matrix.topology;
  require_memory(matrix.values, topology.nonzero_blocks > 0, sizeof(T), name + ".values", host_memory);
  const std::int64_t bytes = topology.block * topology.block * std::int64_t{sizeof(T)};
  return {matrix.values, topology.nonzero_blocks, bytes, bytes};
}

template <class T>
Blocks<T> blocks(const HostBlockSparseMatrix<T>& matrix) {
  return {matrix.topology, matrix.values, matrix.transposed};
}
template <class T>
Blocks<T> transposed(Blocks<T> matrix) {
  matrix.transposed = !matrix.transposed;
  return matrix;
}

void check_shape(const char* name, std::int64_t rows, std::int64_t columns, std::int64_t expected_rows,
                 std::int64_t expected_columns) {
  if (rows != expected_rows || columns != expected_columns)
    throw Error(name, std::to_string(rows) + " x " + std::to_string(columns),
                std::to_string(expected_rows) + " x " + std::to_string(expected_columns));
}

/// Throws Error for operands that are not there, have too short a leading dimension or overlap.
template <class A, class B, class Out>
void check_operands(const A& a, const B& b, const Out& out) {
  OperandSpans operands;
  operands.reads("a", checked_span(a, "a"));
  operands.reads("b", checked_span(b, "b"));
  operands.writes("out", checked_span(out, "out"));
  operands.check();
}
template <class Matrix, class Out>
void check_operands(const Matrix& matrix, const Out& out) {
  OperandSpans operands;
  operands.reads("matrix", checked_span(matrix, "matrix"));
  operands.writes("out", checked_span(out, "out"));
  operands.check();
}

template <class T>
void sdd(const Strided<const T>& a, const Strided<const T>& b, const Blocks<T>& out) {
  const std::int64_t block = out.block(), depth = a.columns;
  check_shape("a", a.rows, depth, out.block_rows() * block, depth);
  check_shape("b", b.rows, b.columns, depth, out.block_columns() * block);
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t q = 0; q < out.topology->nonzero_blocks; ++q) {
    const auto index = static_cast<std::size_t>(q);
    const std::int64_t row = out.row_of(index) * block, column = out.column_of(index) * block;
    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t j = 0; j < block; ++j) {
        T sum = 0;
        for (std::int64_t k = 0; k < depth; ++k) sum += a(row + i, k) * b(k, column + j);
        out(index, i, j) = sum;
      }
  }
}

template <class T>
void dsd(const Blocks<const T>& a, const Strided<const T>& b, const Strided<T>& out, const char* b_name) {
  const std::int64_t block = a.block();
  check_shape(b_name, b.rows, b.columns, a.block_columns() * block, b.columns);
  check_shape("out", out.rows, out.columns, a.block_rows() * block, b.columns);
#pragma omp parallel for schedule(dynamic)
  for (std::int64_t row = 0; row < out.rows; ++row) {
    std::vector<T> sums(static_cast<std::size_t>(out.columns), T{0});
    a.for_each_in_row(row / block, [&](std::size_t q, std::int64_t column) {
      for (std::int64_t k = 0; k < block; ++k)
        for (std::int64_t n = 0; n < out.columns; ++n)
          sums[static_cast<std::size_t>(n)] += a(q, row % block, k) * b(column * block + k, n);
    });
    for (std::int64_t n = 0; n < out.columns; ++n) out(row, n) = sums[static_cast<std::size_t>(n)];
  }
}

/// out = (b^T a^T)^T
template <class T>
void dds(const Strided<const T>& a, const Blocks<const T>& b, const Strided<T>& out) {
  dsd(transposed(b), transposed(a), transposed(out), "a transposed");
}

template <class T>
void to_dense(const Blocks<const T>& matrix, const Strided<T>& out) {
  const std::int64_t block = matrix.block();
  check_shape("out", out.rows, out.columns, matrix.block_rows() * block, matrix.block_columns() * block);
#pragma omp parallel for
  for (std::int64_t row = 0; row < out.rows; ++row) {
    for (std::int64_t column = 0; column < out.columns; ++column) out(row, column) = 0;
    matrix.for_each_in_row(row / block, [&](std::size_t q, std::int64_t column) {
      for (std::int64_t j = 0; j < block; ++j) out(row, column * block + j) = matrix(q, row % block, j);
    });
  }
}

template <class T>
void from_dense(const Strided<const T>& matrix, const Blocks<T>& out) {
  const std::int64_t block = out.block();
  check_shape("matrix", matrix.rows, matrix.columns, out.block_rows() * block, out.block_columns() * block);
#pragma omp parallel for
  for (std::int64_t q = 0; q < out.topology->nonzero_blocks; ++q) {
    const auto index = static_cast<std::size_t>(q);
    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t j = 0; j < block; ++j)
        out(index, i, j) = matrix(out.row_of(index) * block + i, out.column_of(index) * block + j);
  }
}

}  // namespace

void reference_sdd(const HostDenseMatrix<const float>& a, const HostDenseMatrix<const float>& b,
                   const HostBlockSparseMatrix<float>& out) {
  check_operands(a, b, out);
  sdd(strided(a), strided(b), blocks(out));
}
void reference_sdd(const HostDenseMatrix<const double>& a, const HostDenseMatrix<const double>& b,
                   const HostBlockSparseMatrix<double>& out) {
  check_operands(a, b, out);
  sdd(strided(a), strided(b), blocks(out));
}
void reference_dsd(const HostBlockSparseMatrix<const float>& a, const HostDenseMatrix<const float>& b,
                   const HostDenseMatrix<float>& out) {
  check_operands(a, b, out);
  dsd(blocks(a), strided(b), strided(out), "b");
}
void reference_dsd(const HostBlockSparseMatrix<const double>& a, const HostDenseMatrix<const double>& b,
                   const HostDenseMatrix<double>& out) {
  check_operands(a, b, out);
  dsd(blocks(a), strided(b), strided(out), "b");
}
void reference_dds(const HostDenseMatrix<const float>& a, const HostBlockSparseMatrix<const float>& b,
                   const HostDenseMatrix<float>& out) {
  check_operands(a, b, out);
  dds(strided(a), blocks(b), strided(out));
}
void reference_dds(const HostDenseMatrix<const double>& a, const HostBlockSparseMatrix<const double>& b,
                   const HostDenseMatrix<double>& out) {
  check_operands(a, b, out);
  dds(strided(a), blocks(b), strided(out));
}
void reference_to_dense(const HostBlockSparseMatrix<const float>& matrix, const HostDenseMatrix<float>& out) {
  check_operands(matrix, out);
  to_dense(blocks(matrix), strided(out));
}
void reference_to_dense(const HostBlockSparseMatrix<const double>& matrix,
                        const HostDenseMatrix<double>& out) {
  check_operands(matrix, out);
  to_dense(blocks(matrix), strided(out));
}
void reference_from_dense(const HostDenseMatrix<const float>& matrix,
                          const HostBlockSparseMatrix<float>& out) {
  check_operands(matrix, out);
  from_dense(strided(matrix), blocks(out));
}
void reference_from_dense(const HostDenseMatrix<const double>& matrix,
                          const HostBlockSparseMatrix<double>& out) {
  check_operands(matrix, out);
  from_dense(strided(matrix), blocks(out));
}

}  // namespace dropless
