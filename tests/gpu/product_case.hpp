// One expert product in device memory: operands of any shape the contract allows, poisoned with NaN wherever
// no value belongs, and the call held against the double reference.
#pragma once
#include <string>
#include <vector>

#include "catch.hpp"
#include "device_buffer.hpp"
#include "dropless/expert_products.hpp"
#include "kernel_paths.hpp"
#include "product_reference.hpp"

namespace dropless::test {

/// Rows of experts on the device.
class DeviceRows {
 public:
  DeviceRows(const std::vector<std::int32_t>& row_begin, const std::vector<std::int32_t>& row_count,
             std::int64_t rows_bound, RowTileRule rule = {});
  const ExpertRows& view() const { return view_; }

 private:
  DeviceBuffer<std::int32_t> row_begin_, row_count_;
  DeviceBuffer<unsigned char> memory_;
  ExpertRows view_;
};

/// Rows back to back: row_begin is the running sum of row_count.
DeviceRows packed_rows(const std::vector<std::int32_t>& row_count, RowTileRule rule = {});

/// What is not the same for every product.
struct ProductShape {
  std::int64_t k = 64, n = 64;
  ElementType type = ElementType::bf16;
  DffDimension d_ff = DffDimension::n;  ///< n: sdd, k: dsd
  WeightOrder order = WeightOrder::k_by_n;
  bool two_tensors = false;
  bool separate = false;             ///< E separate tensors, in another order than the experts
  std::int64_t shift = 0;            ///< elements by which separate weights lie off multiples of 16 bytes
  std::vector<std::int32_t> widths;  ///< d_ff of each expert, or empty
  std::int64_t pad = 0;              ///< elements between the end of a row and the next, beyond alignment
  bool aligned = true;               ///< leading dimensions are multiples of 8
  bool accumulate = false;
  bool exclusive_rows = true;
};

/// A [rows, columns] matrix, all of it poison.
struct DeviceMatrix {
  DeviceMatrix(std::int64_t rows, std::int64_t columns, const ProductShape& shape, ElementType element_type);
  MutableRowsView view() const { return {buffer.data(), leading_dimension, type}; }
  RowsView read() const { return {buffer.data(), leading_dimension, type}; }

  std::int64_t leading_dimension;
  ElementType type;
  DeviceBuffer<unsigned char> buffer;
};

/// Bytes in which two matrices of the same size differ, poison included.
unsigned long long differing_bytes(const DeviceMatrix& left, const DeviceMatrix& right);

/// The weights of a shape, filled.
class DeviceWeights {
 public:
  DeviceWeights(std::int64_t experts, const ProductShape& shape, std::uint32_t seed);
  const ExpertWeights& view() const { return view_; }
  /// The tensors' elements as doubles, poison included.
  std::vector<double> first_on_host() const;
  std::vector<double> second_on_host() const;
  bool guards_intact() const { return first_.guards_intact() && second_.guards_intact(); }

 private:
  ExpertWeights view_;
  DeviceBuffer<unsigned char> first_, second_;
  DeviceBuffer<std::int32_t> d_ff_, d_ff_begin_;
  DeviceBuffer<unsigned char> first_prepared_, second_prepared_;  // of separate tensors
};

/// sdd or dsd.
class RowsByWeightsCase {
 public:
  RowsByWeightsCase(const ExpertRows& rows, const ProductShape& shape, std::uint32_t seed);

  /// Whether `path` can run these operands on this GPU.
  bool can_run(KernelPath path) const;
  /// Puts the output back to what it was.
  void restore_output(Stream stream = nullptr);
  /// The same, then calls the product and waits.
  void run(KernelPath path, Stream stream = nullptr, std::int32_t sm_limit = 0);
  /// Enqueues the product alone.
  void enqueue(KernelPath path, Stream stream, std::int32_t sm_limit = 0) const;
  ProductErrors errors(double* sums = nullptr) const;
  /// Requires the promised accuracy, and that nothing else was written.
  void require_right() const;

  const ExpertRows rows;
  const ProductShape shape;
  const DeviceWeights weights;
  DeviceMatrix in, before, out;
};

/// weight_gradient; shape.k and shape.n are the columns of a and b.
class WeightGradientCase {
 public:
  WeightGradientCase(const ExpertRows& rows, const ProductShape& shape, ElementType gradient_type,
                     std::uint32_t seed);

  bool can_run(KernelPath path) const;
  void restore_output(Stream stream = nullptr);
  void run(KernelPath path, Stream stream = nullptr, std::int32_t sm_limit = 0);
  void enqueue(KernelPath path, Stream stream, std::int32_t sm_limit = 0) const;
  ProductErrors errors(double* sums = nullptr) const;
  void require_right() const;

  const ExpertRows rows;
  const ProductShape shape;
  DeviceMatrix a, b, before, out;
  DeviceBuffer<unsigned char> prepared;  // of separate gradients
  ExpertGradients gradients;
};

/// Elements of `type` as doubles.
std::vector<double> on_host(const DeviceBuffer<unsigned char>& buffer, ElementType type);

/// Runs a case on every path that can take it.
template <class Case>
void require_right_on_all_paths(Case& product) {
  for (const KernelPath path : all_paths) {
    if (!product.can_run(path)) continue;
    INFO("path " << path_name(path));
    product.run(path);
    product.require_right();
  }
}

}  // namespace dropless::test
