// The block-sparse verbs: every call is checked, then brought to one of the two forms of
// block_sparse_plan.hpp.
#include "dropless/block_sparse.hpp"

#include "block_sparse_checks.hpp"
#include "block_sparse_plan.hpp"
#include "mma_tile.cuh"

namespace dropless {
namespace {

/// The dense left operand over (m, k), or with `right` the right one over (n, k).
ProductOperand operand(const DenseMatrix& matrix, bool right) {
  return {matrix.data, matrix.leading_dimension, matrix.transposed == right,
          moves_by_chunks(matrix.data, matrix.leading_dimension)};
}

/// Shared by DSD and DDS: `a` and `b` may be the transposes of what the caller gave.
void multiply_sparse_by_dense(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out,
                              Stream stream) {
  BlockProduct product;
  product.type = a.type;
  product.block = static_cast<std::int32_t>(a.block);
  product.left = {a.values, a.block, !a.transposed, moves_by_chunks(a.values, a.block)};
  product.right = operand(b, true);
  product.out = {out.data, out.leading_dimension, !out.transposed,
                 moves_by_chunks(out.data, out.leading_dimension)};
  product.rows = read_rows(out);
  product.columns = read_columns(out);
  product.depth = read_columns(a);
  product.nonzero_blocks = a.nonzero_blocks;
  product.offsets = a.transposed ? a.offsets_transposed : a.offsets;
  product.entry_columns = a.transposed ? a.column_indices_transposed : a.column_indices;
  product.entry_blocks = a.transposed ? a.block_offsets_transposed : nullptr;
  if (product.type == ElementType::fp32)
    launch_float_blocks(product, stream);
  else
    launch_tensor_core_blocks(product, stream);
}

}  // namespace

BlockSparseMatrix transposed(const BlockSparseMatrix& matrix) {
  BlockSparseMatrix result = matrix;
  result.transposed = !matrix.transposed;
  return result;
}

DenseMatrix transposed(const DenseMatrix& matrix) {
  DenseMatrix result = matrix;
  result.transposed = !matrix.transposed;
  return result;
}

void sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out, Stream stream) {
  check_matrix(out, PatternWalk::blocks, "out");
  check_matrix(a, "a");
  check_matrix(b, "b");
  check_shape(a, read_rows(out), read_columns(a), "a");
  check_shape(b, read_columns(a), read_columns(out), "b");
  check_type(a.type, out.type, "a");
  check_type(b.type, out.type, "b");
  check_no_overlap(span_of(out), "out.values", span_of(a), "a");
  check_no_overlap(span_of(out), "out.values", span_of(b), "b");
  // The stored blocks of a transposed output are those of (a b)^T = b^T a^T.
  if (out.transposed) return sdd(transposed(b), transposed(a), transposed(out), stream);

  BlockProduct product;
  product.type = out.type;
  product.block = static_cast<std::int32_t>(out.block);
  product.sparse_output = true;
  product.left = operand(a, false);
  product.right = operand(b, true);
  product.out = {out.values, out.block, true, moves_by_chunks(out.values, out.block)};
  product.rows = out.rows;
  product.columns = out.columns;
  product.depth = read_columns(a);
  product.nonzero_blocks = out.nonzero_blocks;
  product.row_indices = out.row_indices;
  product.column_indices = out.column_indices;
  if (product.type == ElementType::fp32)
    launch_float_blocks(product, stream);
  else
    launch_tensor_core_blocks(product, stream);
}

void dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out, Stream stream) {
  check_matrix(a, a.transposed ? PatternWalk::block_columns : PatternWalk::block_rows, "a");
  check_matrix(b, "b");
  check_matrix(out, "out");
  check_shape(b, read_columns(a), read_columns(b), "b");
  check_shape(out, read_rows(a), read_columns(b), "out");
  check_type(b.type, a.type, "b");
  check_type(out.type, a.type, "out");
  check_no_overlap(span_of(out), "out", span_of(a), "a.values");
  check_no_overlap(span_of(out), "out", span_of(b), "b");
  multiply_sparse_by_dense(a, b, out, stream);
}

void dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out, Stream stream) {
  check_matrix(b, b.transposed ? PatternWalk::block_rows : PatternWalk::block_columns, "b");
  check_matrix(a, "a");
  check_matrix(out, "out");
  check_shape(a, read_rows(a), read_rows(b), "a");
  check_shape(out, read_rows(a), read_columns(b), "out");
  check_type(a.type, b.type, "a");
  check_type(out.type, b.type, "out");
  check_no_overlap(span_of(out), "out", span_of(a), "a");
  check_no_overlap(span_of(out), "out", span_of(b), "b.values");
  multiply_sparse_by_dense(transposed(b), transposed(a), transposed(out), stream);
}

}  // namespace dropless
