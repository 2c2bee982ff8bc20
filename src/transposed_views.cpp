// Transposes as views: a flag turns round, no data moves.
#include "dropless/block_sparse.hpp"
#include "dropless/expert_products.hpp"

namespace dropless {

ExpertWeights transposed(const ExpertWeights& weights) {
  ExpertWeights result = weights;
  result.k = weights.n;
  result.n = weights.k;
  result.order = weights.order == WeightOrder::k_by_n ? WeightOrder::n_by_k : WeightOrder::k_by_n;
  return result;
}

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
