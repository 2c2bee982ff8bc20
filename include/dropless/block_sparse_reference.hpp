// The block-sparse products of block_sparse.hpp on the CPU, in float or double, over the arrays of a
// BlockTopology in host memory: any pattern, every transpose. Sums run over k in ascending order in the
// operands' own type. Threads by OpenMP; the result does not depend on their number.
#pragma once
#include <cstdint>
#include <vector>

#include "dropless/array_view.hpp"
#include "dropless/block_topology.hpp"

namespace dropless {

/// The topology of any pattern, transposed view included, from its BCSR arrays: offsets [block_rows + 1] and
/// column_indices [offsets.back()], ascending within a block row. Throws Error where the block is not 16, 32,
/// 64 or 128 or the arrays are no pattern.
BlockTopology topology_of_pattern(std::int64_t block, std::int64_t block_columns,
                                  std::vector<std::int32_t> offsets,
                                  std::vector<std::int32_t> column_indices);

/// DenseMatrix in host memory: stored [rows, columns] row-major; `transposed` reads it as [columns, rows].
template <class T>
struct HostDenseMatrix {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;  ///< as stored
  std::int64_t leading_dimension = 0;
  bool transposed = false;
};

/// BlockSparseMatrix in host memory. The topology outlives the view.
template <class T>
struct HostBlockSparseMatrix {
  const BlockTopology* topology = nullptr;
  T* values = nullptr;  ///< [nonzero_blocks, block, block]
  bool transposed = false;
};

/// out's non-zero blocks = the same blocks of a * b. Throws Error for operands that do not fit together, are
/// null or overlap; so do the calls below.
void reference_sdd(const HostDenseMatrix<const float>& a, const HostDenseMatrix<const float>& b,
                   const HostBlockSparseMatrix<float>& out);
void reference_sdd(const HostDenseMatrix<const double>& a, const HostDenseMatrix<const double>& b,
                   const HostBlockSparseMatrix<double>& out);
/// out = a * b with a block-sparse.
void reference_dsd(const HostBlockSparseMatrix<const float>& a, const HostDenseMatrix<const float>& b,
                   const HostDenseMatrix<float>& out);
void reference_dsd(const HostBlockSparseMatrix<const double>& a, const HostDenseMatrix<const double>& b,
                   const HostDenseMatrix<double>& out);
/// out = a * b with b block-sparse.
void reference_dds(const HostDenseMatrix<const float>& a, const HostBlockSparseMatrix<const float>& b,
                   const HostDenseMatrix<float>& out);
void reference_dds(const HostDenseMatrix<const double>& a, const HostBlockSparseMatrix<const double>& b,
                   const HostDenseMatrix<double>& out);
/// out = the matrix with its zeros written out.
void reference_to_dense(const HostBlockSparseMatrix<const float>& matrix, const HostDenseMatrix<float>& out);
void reference_to_dense(const HostBlockSparseMatrix<const double>& matrix,
                        const HostDenseMatrix<double>& out);
/// out's blocks = the blocks of `matrix` at out's pattern.
void reference_from_dense(const HostDenseMatrix<const float>& matrix,
                          const HostBlockSparseMatrix<float>& out);
void reference_from_dense(const HostDenseMatrix<const double>& matrix,
                          const HostBlockSparseMatrix<double>& out);

}  // namespace dropless
