// The checks that every block-sparse call makes before it launches anything. No CUDA in it, so the host tests
// reach every refusal. What lies in device memory (the indices) is the caller's promise.
#pragma once
#include "dropless/block_sparse.hpp"
#include "dropless/integer_math.hpp"
#include "matrix_span.hpp"

namespace dropless {

inline std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

/// Throws Error unless the call reads or writes nothing through `pointer` or it may.
inline void check_pointer(const void* pointer, bool needed, const std::string& name) {
  if (needed && pointer == nullptr) throw Error(name, "null", "device memory");
}
inline void check_element_alignment(const void* data, ElementType type, const std::string& name) {
  if (reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(element_bytes(type)) != 0)
    throw Error(name, "not aligned", std::string("a multiple of the bytes of a ") + element_name(type));
}

/// A pattern's numbers, whatever arrays describe it.
inline void check_pattern_shape(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                std::int64_t nonzero_blocks, const std::string& name) {
  if (block != 16 && block != 32 && block != 64 && block != 128)
    throw Error(name + ".block", std::to_string(block), "16, 32, 64 or 128");
  if (rows < 0 || rows % block != 0)
    throw Error(name + ".rows", std::to_string(rows), "a multiple of the block " + std::to_string(block));
  if (columns < 0 || columns % block != 0)
    throw Error(name + ".columns", std::to_string(columns),
                "a multiple of the block " + std::to_string(block));
  checked_int32(rows / block, "block rows");
  checked_int32(columns / block, "block columns");
  checked_int32(nonzero_blocks, "nonzero_blocks");
  const std::int64_t most = rows / block * (columns / block);
  if (nonzero_blocks < 0 || nonzero_blocks > most)
    throw Error(name + ".nonzero_blocks", std::to_string(nonzero_blocks),
                "at most the " + std::to_string(most) + " blocks of " + shape_text(rows, columns));
}

/// Which arrays a call walks: blocks one by one, block rows, or block columns.
enum class PatternWalk { blocks, block_rows, block_columns };

/// A matrix as its arrays are stored; `walk` is in terms of the stored matrix.
inline void check_matrix(const BlockSparseMatrix& matrix, PatternWalk walk, const std::string& name) {
  check_pattern_shape(matrix.rows, matrix.columns, matrix.block, matrix.nonzero_blocks, name);
  const bool any = matrix.nonzero_blocks > 0;
  check_pointer(matrix.values, any, name + ".values");
  check_element_alignment(matrix.values, matrix.type, name + ".values");
  switch (walk) {
    case PatternWalk::blocks:
      check_pointer(matrix.row_indices, any, name + ".row_indices");
      check_pointer(matrix.column_indices, any, name + ".column_indices");
      break;
    case PatternWalk::block_rows:
      check_pointer(matrix.offsets, matrix.rows > 0, name + ".offsets");
      check_pointer(matrix.column_indices, any, name + ".column_indices");
      break;
    case PatternWalk::block_columns:
      check_pointer(matrix.offsets_transposed, matrix.columns > 0, name + ".offsets_transposed");
      check_pointer(matrix.column_indices_transposed, any, name + ".column_indices_transposed");
      check_pointer(matrix.block_offsets_transposed, any, name + ".block_offsets_transposed");
      break;
  }
}

inline void check_matrix(const DenseMatrix& matrix, const std::string& name) {
  if (matrix.rows < 0 || matrix.columns < 0)
    throw Error(name, shape_text(matrix.rows, matrix.columns), "rows and columns of 0 or more");
  if (matrix.leading_dimension < matrix.columns)
    throw Error(name + ".leading_dimension", std::to_string(matrix.leading_dimension),
                "at least the " + std::to_string(matrix.columns) + " columns");
  const std::int64_t elements = checked_product(matrix.rows, matrix.leading_dimension, name.c_str());
  checked_product(elements, element_bytes(matrix.type), name.c_str());
  check_pointer(matrix.data, matrix.rows > 0 && matrix.columns > 0, name + ".data");
  check_element_alignment(matrix.data, matrix.type, name + ".data");
}

template <class Matrix>
std::int64_t read_rows(const Matrix& matrix) {
  return matrix.transposed ? matrix.columns : matrix.rows;
}
template <class Matrix>
std::int64_t read_columns(const Matrix& matrix) {
  return matrix.transposed ? matrix.rows : matrix.columns;
}

/// Throws Error unless `matrix` is rows x columns after its transpose.
template <class Matrix>
void check_shape(const Matrix& matrix, std::int64_t rows, std::int64_t columns, const std::string& name) {
  if (read_rows(matrix) != rows || read_columns(matrix) != columns)
    throw Error(name, shape_text(read_rows(matrix), read_columns(matrix)), shape_text(rows, columns));
}

inline void check_type(ElementType type, ElementType expected, const std::string& name) {
  if (type != expected) throw Error(name + ".type", element_name(type), element_name(expected));
}

inline MatrixSpan span_of(const DenseMatrix& matrix) {
  const std::int64_t bytes = element_bytes(matrix.type);
  return {matrix.data, matrix.rows, matrix.columns * bytes, matrix.leading_dimension * bytes};
}
inline MatrixSpan span_of(const BlockSparseMatrix& matrix) {
  const std::int64_t bytes = matrix.block * matrix.block * element_bytes(matrix.type);
  return {matrix.values, matrix.nonzero_blocks, bytes, bytes};
}

/// The steps of k that a kernel counts in 32 bits.
inline void check_depth(std::int64_t k) { checked_int32(ceil_div(k, 16), "k / 16"); }

inline void check_sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out) {
  check_matrix(out, PatternWalk::blocks, "out");
  check_matrix(a, "a");
  check_matrix(b, "b");
  check_shape(a, read_rows(out), read_columns(a), "a");
  check_shape(b, read_columns(a), read_columns(out), "b");
  check_type(a.type, out.type, "a");
  check_type(b.type, out.type, "b");
  check_depth(read_columns(a));
  check_no_overlap(span_of(out), "out.values", span_of(a), "a");
  check_no_overlap(span_of(out), "out.values", span_of(b), "b");
}

/// Everything of DSD and DDS but the shapes.
inline void check_sparse_by_dense(const BlockSparseMatrix& sparse, PatternWalk walk,
                                  const std::string& sparse_name, const DenseMatrix& dense,
                                  const std::string& dense_name, const DenseMatrix& out) {
  check_matrix(sparse, walk, sparse_name);
  check_matrix(dense, dense_name);
  check_matrix(out, "out");
  check_type(dense.type, sparse.type, dense_name);
  check_type(out.type, sparse.type, "out");
  check_no_overlap(span_of(out), "out", span_of(sparse), sparse_name + ".values");
  check_no_overlap(span_of(out), "out", span_of(dense), dense_name);
}

inline void check_dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out) {
  check_sparse_by_dense(a, a.transposed ? PatternWalk::block_columns : PatternWalk::block_rows, "a", b, "b",
                        out);
  check_shape(b, read_columns(a), read_columns(b), "b");
  check_shape(out, read_rows(a), read_columns(b), "out");
  check_depth(read_columns(a));
}

inline void check_dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out) {
  check_sparse_by_dense(b, b.transposed ? PatternWalk::block_rows : PatternWalk::block_columns, "b", a, "a",
                        out);
  check_shape(a, read_rows(a), read_rows(b), "a");
  check_shape(out, read_rows(a), read_columns(b), "out");
  check_depth(read_rows(b));
}

inline void check_to_dense(const BlockSparseMatrix& matrix, const DenseMatrix& out) {
  check_matrix(matrix, PatternWalk::block_rows, "matrix");
  check_matrix(out, "out");
  check_shape(out, read_rows(matrix), read_columns(matrix), "out");
  check_type(out.type, matrix.type, "out");
  check_no_overlap(span_of(out), "out", span_of(matrix), "matrix.values");
}

inline void check_from_dense(const DenseMatrix& matrix, const BlockSparseMatrix& out) {
  check_matrix(out, PatternWalk::blocks, "out");
  check_matrix(matrix, "matrix");
  check_shape(matrix, read_rows(out), read_columns(out), "matrix");
  check_type(matrix.type, out.type, "matrix");
  check_no_overlap(span_of(out), "out.values", span_of(matrix), "matrix");
}

}  // namespace dropless
