// General block-sparse matrices on the GPU: any pattern of B x B blocks (B 16, 32, 64 or 128), with the three
// verbs of stk, every operand transposed or not. For MoE layers prefer expert_products.hpp, which needs no
// padding.
//
// Promises of every call: work goes to the given stream only; no allocation, no host synchronisation,
// capturable in a CUDA graph. Same input, same bits, and a row's bits do not depend on other block rows. Sums
// run in float over k in ascending order, one accumulator an element. All operands of a call have one element
// type; any leading dimension of at least the columns and any address aligned to an element will do
// (multiples of 16 bytes are fastest). The products take the Hopper kernels (sm90) for bf16 and fp16 in
// blocks of 64 and 128 where every base and leading dimension is a multiple of 16 bytes, a dense output's
// stored rows are a multiple of 8 elements long, and no extent reaches 2^30. An output shares no memory with
// an input. What the host can see is checked before anything is launched, and Error names the argument; a
// pattern whose indices lie in the memory of a GPU other than the current one is refused. What the indices in
// device memory say is the caller's promise.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/block_counts.hpp"
#include "dropless/element_type.hpp"
#include "dropless/kernel_path.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// A [rows, columns] matrix of blocks in BCSR form with a transposed view; all arrays in device memory, the
/// caller's. Block q has values[q * block * block ...], row-major, at block row row_indices[q] and block
/// column column_indices[q]; blocks are ordered by block row, then by column. The transposed view lists the
/// same blocks in the order of block columns: entry i has block row column_indices_transposed[i] and block
/// block_offsets_transposed[i].
///
/// `block` is the one that the arrays were built for (DeviceBlockTopology::matrix fills it in). Another is
/// refused where it does not divide rows and columns or where they have no room for nonzero_blocks such
/// blocks; beyond that the host sees no difference.
struct BlockSparseMatrix {
  ElementType type = ElementType::bf16;
  std::int64_t block = 128;
  std::int64_t rows = 0, columns = 0;  ///< as stored; multiples of block
  std::int64_t nonzero_blocks = 0;
  const std::int32_t* offsets = nullptr;                    ///< [rows / block + 1]
  const std::int32_t* row_indices = nullptr;                ///< [nonzero_blocks]
  const std::int32_t* column_indices = nullptr;             ///< [nonzero_blocks]
  const std::int32_t* offsets_transposed = nullptr;         ///< [columns / block + 1]
  const std::int32_t* column_indices_transposed = nullptr;  ///< [nonzero_blocks]
  const std::int32_t* block_offsets_transposed = nullptr;   ///< [nonzero_blocks]
  void* values = nullptr;                                   ///< [nonzero_blocks, block, block]
  bool transposed = false;  ///< read as its transpose: values and arrays stay where they are
  /// Null: rows and nonzero_blocks are exact. Else (device) they are bounds; blocks and block rows past the
  /// counts do not exist: nothing of them is read, and no call writes them.
  const BlockCounts* counts = nullptr;
};

/// A dense matrix [rows, columns] in device memory, row-major with a leading dimension; `transposed` reads it
/// as [columns, rows].
struct DenseMatrix {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0;  ///< as stored
  std::int64_t leading_dimension = 0;  ///< in elements
  ElementType type = ElementType::bf16;
  bool transposed = false;
};

/// The transpose of a matrix as a view; no data moves.
BlockSparseMatrix transposed(const BlockSparseMatrix& matrix);
DenseMatrix transposed(const DenseMatrix& matrix);

/// out's non-zero blocks = the same blocks of a * b. a: [out.rows, k], b: [k, out.columns], all as they are
/// read. Reads out's row_indices and column_indices; offsets may be null, but are worth having: by them the
/// Hopper kernel finds block rows that share operands.
void sdd(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out, Stream stream,
         KernelPath path = KernelPath::automatic);
/// out = a * b with a block-sparse. Rows of out without blocks become zeros. Reads a's offsets and
/// column_indices; of an `a` that is transposed, its transposed view.
void dsd(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out, Stream stream,
         KernelPath path = KernelPath::automatic);
/// out = a * b with b block-sparse. Columns of out without blocks become zeros. Reads b's transposed view; of
/// a `b` that is transposed, offsets and column_indices.
void dds(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out, Stream stream,
         KernelPath path = KernelPath::automatic);

/// The path that `automatic` would take for this call on the current device, for reports and tests.
KernelPath sdd_path(const DenseMatrix& a, const DenseMatrix& b, const BlockSparseMatrix& out);
KernelPath dsd_path(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out);
KernelPath dds_path(const DenseMatrix& a, const BlockSparseMatrix& b, const DenseMatrix& out);

/// out = the matrix with its zeros written out.
void to_dense(const BlockSparseMatrix& matrix, const DenseMatrix& out, Stream stream);
/// out's blocks = the blocks of `matrix` at out's pattern; what lies outside the pattern is ignored.
void from_dense(const DenseMatrix& matrix, const BlockSparseMatrix& out, Stream stream);

/// Device bytes of the transposed view of a pattern, and of the scratch that dies in its construction.
std::size_t transposed_view_bytes(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                  std::int64_t nonzero_blocks);
std::size_t transposed_view_workspace_bytes(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                            std::int64_t nonzero_blocks);

/// The same matrix with a transposed view, built on `stream` from row_indices and column_indices by a stable
/// sort into `memory` (16-byte aligned, which must outlive the result). `workspace` is free again once the
/// stream has passed. For any pattern whose number of blocks the host knows: `matrix.counts` must be null. (A
/// topology over a row layout has its view already.) Throws Error for short memory, null arrays, and indices
/// or `memory` of another GPU than the current one.
BlockSparseMatrix with_transposed_view(const BlockSparseMatrix& matrix, void* memory,
                                       std::size_t memory_bytes, void* workspace, std::size_t workspace_bytes,
                                       Stream stream);

}  // namespace dropless
