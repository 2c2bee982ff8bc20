// Builds the operands of one expert product, runs it on a path, and compares every element with the double
// reference.
#include "product_case.hpp"

#include <numeric>

#include "accuracy.hpp"
#include "device_properties.hpp"
#include "dropless/float16.hpp"

namespace dropless::test {
namespace {

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::int64_t leading_dimension_of(std::int64_t columns, const ProductShape& shape) {
  return shape.aligned ? round_up(columns, 8) + 8 * shape.pad : columns + shape.pad;
}

std::vector<std::int32_t> running_sum(const std::vector<std::int32_t>& counts) {
  std::vector<std::int32_t> begins(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), begins.begin(), 0);
  return begins;
}

/// Half of each width where two tensors share it.
std::vector<std::int32_t> widths_in_one_tensor(const ProductShape& shape) {
  std::vector<std::int32_t> widths = shape.widths;
  if (shape.two_tensors)
    for (std::int32_t& width : widths) width /= 2;
  return widths;
}

ExpertWeights weights_shape(std::int64_t experts, const ProductShape& shape) {
  ExpertWeights weights;
  weights.type = shape.type;
  weights.experts = experts;
  weights.k = shape.k;
  weights.n = shape.n;
  weights.order = shape.order;
  return weights;
}

/// Rows and columns of one tensor's matrix in memory.
struct TensorShape {
  std::int64_t outer, inner;
  bool d_ff_outer;
};
TensorShape tensor_shape(const ProductShape& shape) {
  const bool d_ff_is_n = shape.d_ff == DffDimension::n, k_by_n = shape.order == WeightOrder::k_by_n;
  std::int64_t k = shape.k, n = shape.n;
  if (shape.two_tensors) (d_ff_is_n ? n : k) /= 2;
  return {k_by_n ? k : n, k_by_n ? n : k, d_ff_is_n != k_by_n};
}

/// Elements of one tensor: the experts' matrices one after the other, or stacked along d_ff.
std::int64_t tensor_rows(std::int64_t experts, const ProductShape& shape) {
  const TensorShape tensor = tensor_shape(shape);
  if (shape.widths.empty() || shape.separate) return experts * tensor.outer;
  const std::vector<std::int32_t> widths = widths_in_one_tensor(shape);
  return tensor.d_ff_outer ? std::accumulate(widths.begin(), widths.end(), std::int64_t{0}) : tensor.outer;
}
std::int64_t tensor_columns(const ProductShape& shape) {
  const TensorShape tensor = tensor_shape(shape);
  if (shape.widths.empty() || shape.separate || tensor.d_ff_outer) return tensor.inner;
  const std::vector<std::int32_t> widths = widths_in_one_tensor(shape);
  return std::max(std::accumulate(widths.begin(), widths.end(), std::int64_t{0}), tensor.inner);
}
std::size_t tensor_bytes(std::int64_t experts, const ProductShape& shape) {
  const std::int64_t matrices =
      tensor_rows(experts, shape) * leading_dimension_of(tensor_columns(shape), shape);
  return size((matrices + shape.shift) * element_bytes(shape.type));
}

/// Memory that reversed_matrices needs.
std::size_t prepared_bytes(bool separate, std::int64_t experts) {
  return separate ? separate_matrices_bytes(experts) : 0;
}

/// Separate matrices [rows, columns]: expert e's lies where expert E-1-e's would in one allocation at `data`.
SeparateMatrices reversed_matrices(unsigned char* data, std::int64_t experts, std::int64_t rows,
                                   std::int64_t columns, std::int64_t leading_dimension, ElementType type,
                                   const DeviceBuffer<unsigned char>& prepared) {
  const std::int64_t matrix_bytes = rows * leading_dimension * element_bytes(type);
  std::vector<void*> matrices;
  for (std::int64_t e = 0; e < experts; ++e) matrices.push_back(data + (experts - 1 - e) * matrix_bytes);
  return prepare_separate_matrices(matrices, rows, columns, leading_dimension, type, prepared.data(),
                                   prepared.size(), nullptr);
}

void require_right(const ProductErrors& errors, ElementType out_type) {
  CHECK(errors.beyond_bound == 0);
  CHECK(errors.stray_writes == 0);
  REQUIRE(errors.relative() <= relative_error_limit(out_type));
}

void copy(const DeviceMatrix& from, DeviceMatrix& to, Stream stream) {
  if (from.buffer.bytes() == 0) return;
  DROPLESS_CUDA_CHECK(cudaMemcpyAsync(to.buffer.data(), from.buffer.data(), from.buffer.bytes(),
                                      cudaMemcpyDeviceToDevice, stream));
}

}  // namespace

DeviceRows::DeviceRows(const std::vector<std::int32_t>& row_begin, const std::vector<std::int32_t>& row_count,
                       std::int64_t rows_bound, RowTileRule rule)
    : row_begin_(row_begin),
      row_count_(row_count),
      memory_(expert_rows_bytes(static_cast<std::int64_t>(row_count.size()), rows_bound, rule)),
      view_(prepare_expert_rows(row_begin_.data(), row_count_.data(),
                                static_cast<std::int64_t>(row_count.size()), rows_bound, memory_.data(),
                                memory_.size(), nullptr, rule)) {
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

DeviceRows packed_rows(const std::vector<std::int32_t>& row_count, RowTileRule rule) {
  return DeviceRows(running_sum(row_count), row_count,
                    std::accumulate(row_count.begin(), row_count.end(), std::int64_t{0}), rule);
}

DeviceMatrix::DeviceMatrix(std::int64_t rows, std::int64_t columns, const ProductShape& shape,
                           ElementType element_type)
    : leading_dimension(leading_dimension_of(columns, shape)),
      type(element_type),
      buffer(size(rows * leading_dimension * element_bytes(element_type))) {}

unsigned long long differing_bytes(const DeviceMatrix& left, const DeviceMatrix& right) {
  REQUIRE(left.buffer.bytes() == right.buffer.bytes());
  return differing_bytes(left.buffer.data(), right.buffer.data(),
                         static_cast<std::int64_t>(left.buffer.bytes()));
}

DeviceWeights::DeviceWeights(std::int64_t experts, const ProductShape& shape, std::uint32_t seed)
    : view_(weights_shape(experts, shape)),
      first_(tensor_bytes(experts, shape)),
      second_(shape.two_tensors ? tensor_bytes(experts, shape) : 0),
      d_ff_(shape.widths),
      d_ff_begin_(running_sum(widths_in_one_tensor(shape))),
      first_prepared_(prepared_bytes(shape.separate, experts)),
      second_prepared_(prepared_bytes(shape.separate && shape.two_tensors, experts)) {
  view_.leading_dimension = leading_dimension_of(tensor_columns(shape), shape);
  const std::int64_t stride = tensor_shape(shape).outer * view_.leading_dimension;
  if (shape.separate) {
    const auto separate = [&](const DeviceBuffer<unsigned char>& data,
                              const DeviceBuffer<unsigned char>& prepared) {
      const SeparateMatrices matrices = reversed_matrices(
          data.data() + shape.shift * element_bytes(shape.type), experts, tensor_shape(shape).outer,
          tensor_shape(shape).inner, view_.leading_dimension, shape.type, prepared);
      return WeightTensor{nullptr, 0, matrices.matrices, matrices.maps};
    };
    view_.first = separate(first_, first_prepared_);
    if (shape.two_tensors) view_.second = separate(second_, second_prepared_);
  } else {
    view_.first = {first_.data(), stride};
    if (shape.two_tensors) view_.second = {second_.data(), stride};
  }
  if (!shape.widths.empty()) view_.widths = {d_ff_.data(), d_ff_begin_.data()};
  // Outputs are then of order one.
  fill_weights(view_, shape.d_ff, 3.0f / std::sqrt(static_cast<float>(shape.k)), seed);
}

std::vector<double> DeviceWeights::first_on_host() const { return on_host(first_, view_.type); }
std::vector<double> DeviceWeights::second_on_host() const { return on_host(second_, view_.type); }

RowsByWeightsCase::RowsByWeightsCase(const ExpertRows& expert_rows, const ProductShape& product_shape,
                                     std::uint32_t seed)
    : rows(expert_rows),
      shape(product_shape),
      weights(rows.experts, shape, seed),
      in(rows.rows_bound, shape.k, shape, shape.type),
      before(rows.rows_bound, shape.n, shape, shape.type),
      out(rows.rows_bound, shape.n, shape, shape.type) {
  const std::int32_t* widths = weights.view().widths.d_ff;
  const bool sdd_form = shape.d_ff == DffDimension::n;
  fill_rows(rows, in.view(), shape.k, sdd_form ? nullptr : widths, 1.0f, seed + 1);
  if (shape.accumulate) fill_rows(rows, before.view(), shape.n, sdd_form ? widths : nullptr, 1.0f, seed + 2);
}

bool RowsByWeightsCase::can_run(KernelPath path) const {
  if (!gpu_has(path)) return false;
  const auto chosen = shape.d_ff == DffDimension::n ? sdd_path : dsd_path;
  return path == KernelPath::portable || chosen(rows, in.read(), weights.view(), out.view()) == path;
}

void RowsByWeightsCase::enqueue(KernelPath path, Stream stream, std::int32_t sm_limit) const {
  const auto product = shape.d_ff == DffDimension::n ? sdd : dsd;
  product(rows, in.read(), weights.view(), out.view(),
          {shape.accumulate, sm_limit, path, shape.exclusive_rows}, stream);
}

void RowsByWeightsCase::restore_output(Stream stream) { copy(before, out, stream); }

void RowsByWeightsCase::run(KernelPath path, Stream stream, std::int32_t sm_limit) {
  restore_output(stream);
  enqueue(path, stream, sm_limit);
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

ProductErrors RowsByWeightsCase::errors(double* sums) const {
  return compare_rows_by_weights(rows, in.read(), weights.view(), shape.d_ff, out.read(),
                                 before.buffer.data(), shape.accumulate, sums);
}

void RowsByWeightsCase::require_right() const {
  dropless::test::require_right(errors(), shape.type);
  REQUIRE(in.buffer.guards_intact());
  REQUIRE(out.buffer.guards_intact());
  REQUIRE(weights.guards_intact());
}

WeightGradientCase::WeightGradientCase(const ExpertRows& expert_rows, const ProductShape& product_shape,
                                       ElementType gradient_type, std::uint32_t seed)
    : rows(expert_rows),
      shape(product_shape),
      a(rows.rows_bound, shape.k, shape, shape.type),
      b(rows.rows_bound, shape.n, shape, shape.type),
      before(rows.experts * shape.k, shape.n, shape, gradient_type),
      out(rows.experts * shape.k, shape.n, shape, gradient_type),
      prepared(prepared_bytes(shape.separate, rows.experts)) {
  fill_rows(rows, a.view(), shape.k, nullptr, 1.0f, seed);
  fill_rows(rows, b.view(), shape.n, nullptr, 1.0f, seed + 1);
  gradients.type = gradient_type;
  gradients.experts = rows.experts;
  gradients.m = shape.k;
  gradients.n = shape.n;
  gradients.leading_dimension = out.leading_dimension;
  gradients.expert_stride = shape.k * out.leading_dimension;
  gradients.data = out.buffer.data();
  if (shape.separate) {
    const SeparateMatrices separate = reversed_matrices(out.buffer.data(), rows.experts, shape.k, shape.n,
                                                        out.leading_dimension, gradient_type, prepared);
    gradients.matrices = separate.matrices;
    gradients.maps = separate.maps;
  }
  if (shape.accumulate) {
    // All experts' gradients as the rows of one expert.
    const DeviceRows all({0}, {static_cast<std::int32_t>(rows.experts * shape.k)}, rows.experts * shape.k);
    fill_rows(all.view(), before.view(), shape.n, nullptr, 1.0f, seed + 2);
  }
}

bool WeightGradientCase::can_run(KernelPath path) const {
  if (!gpu_has(path)) return false;
  return path == KernelPath::portable || weight_gradient_path(rows, a.read(), b.read(), gradients) == path;
}

void WeightGradientCase::enqueue(KernelPath path, Stream stream, std::int32_t sm_limit) const {
  weight_gradient(rows, a.read(), b.read(), gradients,
                  {shape.accumulate, sm_limit, path, shape.exclusive_rows}, stream);
}

void WeightGradientCase::restore_output(Stream stream) { copy(before, out, stream); }

void WeightGradientCase::run(KernelPath path, Stream stream, std::int32_t sm_limit) {
  restore_output(stream);
  enqueue(path, stream, sm_limit);
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

ProductErrors WeightGradientCase::errors(double* sums) const {
  return compare_weight_gradient(rows, a.read(), b.read(), gradients, before.buffer.data(), shape.accumulate,
                                 sums);
}

void WeightGradientCase::require_right() const {
  dropless::test::require_right(errors(), gradients.type);
  REQUIRE(a.buffer.guards_intact());
  REQUIRE(b.buffer.guards_intact());
  REQUIRE(out.buffer.guards_intact());
}

std::vector<double> on_host(const DeviceBuffer<unsigned char>& buffer, ElementType type) {
  const std::vector<unsigned char> bytes = buffer.download();
  std::vector<double> values(bytes.size() / size(element_bytes(type)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::fp32) {
      float value;
      std::memcpy(&value, bytes.data() + 4 * i, 4);
      values[i] = value;
    } else {
      std::uint16_t pattern;
      std::memcpy(&pattern, bytes.data() + 2 * i, 2);
      values[i] = float_from_pattern(type, pattern);
    }
  }
  return values;
}

}  // namespace dropless::test
