// The checks that every block-sparse call makes before it launches anything. No CUDA in it, so the host tests
// reach every refusal. What lies in device memory (the indices) is the caller's promise.
#pragma once
#include "argument_checks.hpp"
#include "dropless/block_sparse.hpp"
#include "dropless/integer_math.hpp"
#include "matrix_span.hpp"

namespace dropless {

inline std::string shape_text(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

/// A pattern's numbers, whatever arrays describe it.
inline void check_pattern_shape(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                std::int64_t nonzero_blocks, const std::string& name) {
  require_block(block, name + ".block");
  const std::string multiple = "a multiple of the block " + std::to_string(block);
  require(rows >= 0 && rows % block == 0, name + ".rows", std::to_string(rows), multiple);
  require(columns >= 0 && columns % block == 0, name + ".columns", std::to_string(columns), multiple);
  checked_int32(rows / block, "block rows");
  checked_int32(columns / block, "block columns");
  checked_int32(nonzero_blocks, "nonzero_blocks");
  const std::int64_t most = rows / block * (columns / block);
  require(nonzero_blocks >= 0 && nonzero_blocks <= most, name + ".nonzero_blocks",
          std::to_string(nonzero_blocks),
          "at most the " + std::to_string(most) + " blocks of " + shape_text(rows, columns));
}

/// Which arrays a call walks: blocks one by one, block rows, or block columns.
enum class PatternWalk { blocks, block_rows, block_columns };

/// A matrix as its arrays are stored; `walk` is in terms of the stored matrix.
inline MatrixSpan check_matrix(const BlockSparseMatrix& matrix, PatternWalk walk, const std::string& name) {
  check_pattern_shape(matrix.rows, matrix.columns, matrix.block, matrix.nonzero_blocks, name);
  const bool any = matrix.nonzero_blocks > 0;
  require_memory(matrix.values, any, element_bytes(matrix.type), name + ".values");
  const auto require_indices = [&](const std::int32_t* indices, bool needed, const char* array) {
    require_memory(indices, needed, sizeof(std::int32_t), name + "." + array);
  };
  switch (walk) {
    case PatternWalk::blocks:
      require_indices(matrix.row_indices, any, "row_indices");
      require_indices(matrix.column_indices, any, "column_indices");
      break;
    case PatternWalk::block_rows:
      require_indices(matrix.offsets, matrix.rows > 0, "offsets");
      require_indices(matrix.column_indices, any, "column_indices");
      break;
    case PatternWalk::block_columns:
      require_indices(matrix.offsets_transposed, matrix.columns > 0, "offsets_transposed");
      require_indices(matrix.column_indices_transposed, any, "column_indices_transposed");
      require_indices(matrix.block_offsets_transposed, any, "block_offsets_transposed");
      break;
  }
  const std::int64_t bytes = matrix.block * matrix.block * element_bytes(matrix.type);
  return {matrix.values, matrix.nonzero_blocks, bytes, bytes};
}

inline MatrixSpan check_matrix(const DenseMatrix& matrix, const std::string& name) {
  require(matrix.rows >= 0 && matrix.columns >= 0, name, shape_text(matrix.rows, matrix.columns),
          "rows and columns of 0 or more");
  return matrix_span(name, matrix.data, matrix.rows, matrix.columns, matrix.leading_dimension,
                     element_bytes(matrix.type));
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
  require(read_rows(matrix) == rows && read_columns(matrix) == columns, name,
          shape_text(read_rows(matrix), read_columns(matrix)), shape_text(rows, columns));
}

/// The steps of k that a kernel counts in 32 bits.
inline void check_depth(std::int64_t k) { checked_int32(ceil_div(k, 16), "k / 16"); }

inline void check_sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out) {
  const MatrixSpan blocks = check_matrix(out, PatternWalk::blocks, "out");
  const MatrixSpan left = check_matrix(a, "a"), right = check_matrix(b, "b");
  check_shape(a, read_rows(out), read_columns(a), "a");
  check_shape(b, read_columns(a), read_columns(out), "b");
  require_type(a.type, out.type, "a.type");
  require_type(b.type, out.type, "b.type");
  check_depth(read_columns(a));
  check_no_overlap(blocks, "out.values", left, "a");
  check_no_overlap(blocks, "out.values", right, "b");
}

/// Everything of DSD and DDS but the shapes.
inline void check_sparse_by_dense(const BlockSparseMatrix& sparse, PatternWalk walk,
                                  const std::string& sparse_name, const DenseMatrix& dense,
                                  const std::string& dense_name, const DenseMatrix& out) {
  const MatrixSpan blocks = check_matrix(sparse, walk, sparse_name);
  const MatrixSpan in = check_matrix(dense, dense_name), sums = check_matrix(out, "out");
  require_type(dense.type, sparse.type, dense_name + ".type");
  require_type(out.type, sparse.type, "out.type");
  check_no_overlap(sums, "out", blocks, sparse_name + ".values");
  check_no_overlap(sums, "out", in, dense_name);
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
  const MatrixSpan blocks = check_matrix(matrix, PatternWalk::block_rows, "matrix");
  const MatrixSpan dense = check_matrix(out, "out");
  check_shape(out, read_rows(matrix), read_columns(matrix), "out");
  require_type(out.type, matrix.type, "out.type");
  check_no_overlap(dense, "out", blocks, "matrix.values");
}

inline void check_from_dense(const DenseMatrix& matrix, const BlockSparseMatrix& out) {
  const MatrixSpan blocks = check_matrix(out, PatternWalk::blocks, "out");
  const MatrixSpan dense = check_matrix(matrix, "matrix");
  check_shape(matrix, read_rows(out), read_columns(out), "matrix");
  require_type(matrix.type, out.type, "matrix.type");
  check_no_overlap(blocks, "out.values", dense, "matrix");
}

}  // namespace dropless
