// The block-sparse verbs: every call is checked, brought to one of the two forms of block_sparse_plan.hpp,
// and computed by the path chosen for it.
#include "dropless/block_sparse.hpp"

#include "block_sparse_checks.hpp"
#include "block_sparse_plan.hpp"
#include "chosen_path.hpp"
#include "current_device.hpp"

namespace dropless {
namespace {

BlockProduct checked_sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out) {
  check_sdd(a, b, out);
  return plan_sdd(a, b, out);
}
BlockProduct checked_dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out) {
  check_dsd(a, b, out);
  return plan_dsd(a, b, out);
}
BlockProduct checked_dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out) {
  check_dds(a, b, out);
  return plan_dds(a, b, out);
}

void run(const BlockProduct& product, KernelPath path, Stream stream) {
  check_current_device(product.sparse_output ? product.row_indices : product.offsets,
                       "the block-sparse matrix's indices");
  if (!has_output(product)) return;
  if (chosen_path(product, path, "path") == KernelPath::sm90)
    launch_sm90(product, stream);
  else if (product.type == ElementType::fp32)
    launch_float_blocks(product, stream);
  else
    launch_tensor_core_blocks(product, stream);
}

}  // namespace

void sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out, Stream stream,
         KernelPath path) {
  run(checked_sdd(a, b, out), path, stream);
}

void dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out, Stream stream,
         KernelPath path) {
  run(checked_dsd(a, b, out), path, stream);
}

void dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out, Stream stream,
         KernelPath path) {
  run(checked_dds(a, b, out), path, stream);
}

KernelPath sdd_path(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out) {
  return possible_path(checked_sdd(a, b, out));
}
KernelPath dsd_path(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out) {
  return possible_path(checked_dsd(a, b, out));
}
KernelPath dds_path(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out) {
  return possible_path(checked_dds(a, b, out));
}

}  // namespace dropless
