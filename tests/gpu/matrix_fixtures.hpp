// Dense and block-sparse matrices of random values in device memory, poisoned around every value, with the
// views that the library and the reference product take.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dense_reference.hpp"
#include "device_buffer.hpp"
#include "dropless/block_sparse.hpp"
#include "dropless/block_sparse_reference.hpp"

namespace dropless::test {

/// `count` random values as elements of `type`, in [-1, 1).
std::vector<unsigned char> random_elements(ElementType type, std::int64_t count, std::uint32_t seed);

/// Element `index` of `bytes` as a double.
double element_value(ElementType type, const std::vector<unsigned char>& bytes, std::int64_t index);

/// How a matrix is filled: random values, or left as poison for an output.
enum class Fill { random, poison };

/// A dense matrix of `rows` x `columns` as it is read, stored transposed or not with `pad` poisoned elements
/// behind each stored row.
class DeviceDense {
 public:
  DeviceDense(ElementType type, std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t pad,
              Fill fill, std::uint32_t seed);

  DenseMatrix view() const { return view_; }
  ReferenceOperand reference() const;
  /// Copies the contents back; then value() reads element (row, column) of the matrix as it is read.
  void download() { host_ = buffer_.download(); }
  double value(std::int64_t row, std::int64_t column) const;
  const std::vector<unsigned char>& bytes() const { return host_; }
  void poison() { buffer_.poison(); }
  /// Whether the guards and the padding still hold their poison, after download().
  bool surroundings_intact() const;

 private:
  DenseMatrix view_;
  DeviceBuffer<unsigned char> buffer_;
  std::vector<unsigned char> host_;
};

/// A block-sparse matrix of `rows` x `columns` as it is read, over a random pattern.
class DeviceBlockSparse {
 public:
  DeviceBlockSparse(ElementType type, std::int64_t block, std::int64_t rows, std::int64_t columns,
                    bool transposed, double sparsity, Fill fill, std::uint32_t seed);
  /// Over a given topology, in terms of the stored matrix.
  DeviceBlockSparse(ElementType type, BlockTopology topology, bool transposed, Fill fill, std::uint32_t seed);

  const BlockTopology& topology() const { return topology_; }
  BlockSparseMatrix view() const { return view_; }
  ReferenceOperand reference() const;
  void download() { host_ = values_.download(); }
  /// The block that holds element (row, column) of the matrix as it is read, or -1.
  std::int64_t block_of(std::int64_t row, std::int64_t column) const;
  double value(std::int64_t row, std::int64_t column) const;
  const std::vector<unsigned char>& bytes() const { return host_; }
  void poison() { values_.poison(); }
  bool surroundings_intact() const { return values_.guards_intact(); }

 private:
  BlockTopology topology_;
  std::vector<std::int32_t> table_;  // [block_rows, block_columns] as stored
  DeviceBuffer<std::int32_t> offsets_, row_indices_, column_indices_, offsets_transposed_,
      column_indices_transposed_, block_offsets_transposed_, device_table_;
  DeviceBuffer<unsigned char> values_;
  BlockSparseMatrix view_;
  std::vector<unsigned char> host_;
};

}  // namespace dropless::test
