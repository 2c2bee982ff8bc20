// The block-sparse verbs: every call is checked, then brought to one of the two forms of
// block_sparse_plan.hpp.
#include "dropless/block_sparse.hpp"

#include "block_sparse_checks.hpp"
#include "block_sparse_plan.hpp"
#include "current_device.hpp"

namespace dropless {
namespace {

void run(const BlockProduct& product, Stream stream) {
  check_current_device(product.sparse_output ? product.row_indices : product.offsets,
                       "the block-sparse matrix's indices");
  if (product.type == ElementType::fp32)
    launch_float_blocks(product, stream);
  else
    launch_tensor_core_blocks(product, stream);
}

}  // namespace

void sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out, Stream stream) {
  check_sdd(a, b, out);
  run(plan_sdd(a, b, out), stream);
}

void dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out, Stream stream) {
  check_dsd(a, b, out);
  run(plan_dsd(a, b, out), stream);
}

void dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out, Stream stream) {
  check_dds(a, b, out);
  run(plan_dds(a, b, out), stream);
}

}  // namespace dropless
