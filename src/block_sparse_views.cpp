// Transposes as views: a flag turns round, no data moves.
#include "dropless/block_sparse.hpp"

namespace dropless {

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

}  // namespace dropless
