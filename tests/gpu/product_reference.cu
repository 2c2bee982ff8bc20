// One thread an element; types are looked at element by element, since nothing here needs to be fast.
#include "device_buffer.hpp"
#include "product_reference.hpp"
#include "typed_element.cuh"

namespace dropless::test {
namespace {

constexpr int threads = 256;

unsigned blocks_for(std::int64_t elements) {
  const std::int64_t blocks = ceil_div(elements, threads);
  return static_cast<unsigned>(blocks < 100000 ? blocks : 100000);
}
#define DROPLESS_FOR_EACH_INDEX(index, count)                                                  \
  for (std::int64_t index = blockIdx.x * std::int64_t{threads} + threadIdx.x; index < (count); \
       index += gridDim.x * std::int64_t{threads})

__device__ void store(void* data, std::int64_t index, ElementType type, float value) {
  switch (type) {
    case ElementType::bf16:
      static_cast<__nv_bfloat16*>(data)[index] = __float2bfloat16_rn(value);
      break;
    case ElementType::fp16:
      static_cast<__half*>(data)[index] = __float2half_rn(value);
      break;
    default:
      static_cast<float*>(data)[index] = value;
  }
}

__device__ bool same_bits(const void* left, const void* right, std::int64_t index, ElementType type) {
  if (type == ElementType::fp32)
    return static_cast<const std::uint32_t*>(left)[index] == static_cast<const std::uint32_t*>(right)[index];
  return static_cast<const std::uint16_t*>(left)[index] == static_cast<const std::uint16_t*>(right)[index];
}

/// A value of [-1, 1) that depends on all four numbers.
__device__ float uniform_value(std::uint32_t seed, std::int64_t a, std::int64_t b, std::int64_t c) {
  std::uint64_t state = seed;
  for (const std::int64_t number : {a, b, c}) {
    state = (state ^ static_cast<std::uint64_t>(number)) * 0x9e3779b97f4a7c15ull;
    state ^= state >> 29;
    state *= 0xbf58476d1ce4e5b9ull;
    state ^= state >> 32;
  }
  return static_cast<float>(static_cast<std::uint32_t>(state) >> 8) * (2.0f / (1 << 24)) - 1.0f;
}

/// Expert of each row, or -1.
__global__ void label_rows(ExpertRows rows, std::int32_t* expert_of_row) {
  for (std::int64_t expert = blockIdx.x; expert < rows.experts; expert += gridDim.x)
    for (std::int32_t row = threadIdx.x; row < rows.row_count[expert]; row += threads)
      expert_of_row[rows.row_begin[expert] + row] = static_cast<std::int32_t>(expert);
}

DeviceBuffer<std::int32_t> expert_of_each_row(const ExpertRows& rows) {
  DeviceBuffer<std::int32_t> labels(static_cast<std::size_t>(rows.rows_bound));  // begins as -1
  if (rows.experts > 0) label_rows<<<static_cast<unsigned>(rows.experts), threads>>>(rows, labels.data());
  check_launch("label_rows");
  return labels;
}

__global__ void write_rows(const std::int32_t* expert_of_row, std::int64_t rows, MutableRowsView matrix,
                           std::int64_t columns, const std::int32_t* widths, float scale,
                           std::uint32_t seed) {
  DROPLESS_FOR_EACH_INDEX(i, rows * columns) {
    const std::int64_t row = i / columns, column = i % columns;
    const std::int32_t expert = expert_of_row[row];
    if (expert < 0 || (widths != nullptr && column >= widths[expert])) continue;
    store(matrix.data, row * matrix.leading_dimension + column, matrix.type,
          scale * uniform_value(seed, row, column, 0));
  }
}

/// Where W[expert](k, n) lies, read off the documentation of ExpertWeights.
struct WeightPlace {
  const void* data;
  std::int64_t index;
};
__device__ std::int64_t d_ff_of(const ExpertWeights& weights, DffDimension d_ff, std::int64_t expert) {
  if (weights.widths.d_ff != nullptr) return weights.widths.d_ff[expert];
  return d_ff == DffDimension::n ? weights.n : weights.k;
}
__device__ WeightPlace weight_place(const ExpertWeights& weights, DffDimension d_ff, std::int64_t expert,
                                    std::int64_t k, std::int64_t n) {
  std::int64_t& unit = d_ff == DffDimension::n ? n : k;
  const WeightTensor* tensor = &weights.first;
  if (weights.second.data != nullptr || weights.second.matrices != nullptr) {
    const std::int64_t half = d_ff_of(weights, d_ff, expert) / 2;
    if (unit >= half) {
      tensor = &weights.second;
      unit -= half;
    }
  }
  const void* data = tensor->data;
  std::int64_t index = 0;
  if (tensor->matrices != nullptr)
    data = tensor->matrices[expert];
  else if (weights.widths.d_ff != nullptr)
    unit += weights.widths.d_ff_begin[expert];
  else
    index = expert * tensor->expert_stride;
  index += weights.order == WeightOrder::k_by_n ? k * weights.leading_dimension + n
                                                : n * weights.leading_dimension + k;
  return {data, index};
}

__global__ void write_weights(ExpertWeights weights, DffDimension d_ff, float scale, std::uint32_t seed) {
  DROPLESS_FOR_EACH_INDEX(i, weights.experts * weights.k * weights.n) {
    const std::int64_t n = i % weights.n, k = i / weights.n % weights.k, expert = i / weights.n / weights.k;
    if ((d_ff == DffDimension::n ? n : k) >= d_ff_of(weights, d_ff, expert)) continue;
    const WeightPlace place = weight_place(weights, d_ff, expert, k, n);
    store(const_cast<void*>(place.data), place.index, weights.type,
          scale * uniform_value(seed, expert, k, n));
  }
}

/// One element's sum and the sum of its terms' magnitudes.
struct Sums {
  double value = 0, magnitude = 0;
  __device__ void add(double left, double right) {
    value += left * right;
    magnitude += fabs(left * right);
  }
};

/// Holds an element against its bound.
__device__ void judge(ProductErrors& errors, Sums sums, const void* out, const void* before,
                      std::int64_t index, ElementType type, bool accumulate) {
  const double old = accumulate ? load_element(before, index, type) : 0, expected = sums.value + old;
  const double unit = type == ElementType::bf16 ? 0x1p-8 : type == ElementType::fp16 ? 0x1p-11 : 0;
  const double error = fabs(load_element(out, index, type) - expected);
  // fp16 has no finer steps than 2^-24: a one-row expert's gradient may fall below its normal range.
  const double underflow = type == ElementType::fp16 ? 0x1p-25 : 0;
  const double bound = unit * fabs(expected) + 1e-5 * (sums.magnitude + fabs(old)) + underflow;
  errors.error_squared += error * error;
  errors.reference_squared += expected * expected;
  if (!(error <= bound)) ++errors.beyond_bound;
}

__device__ void add_up(const ProductErrors& own, ProductErrors* all) {
  if (own.reference_squared != 0 || own.error_squared != 0) {
    atomicAdd(&all->error_squared, own.error_squared);
    atomicAdd(&all->reference_squared, own.reference_squared);
  }
  if (own.beyond_bound != 0) atomicAdd(&all->beyond_bound, own.beyond_bound);
  if (own.stray_writes != 0) atomicAdd(&all->stray_writes, own.stray_writes);
}

__global__ void judge_rows(const std::int32_t* expert_of_row, std::int64_t rows, RowsView in,
                           ExpertWeights weights, DffDimension d_ff, RowsView out, const void* before,
                           bool accumulate, double* sums_out, ProductErrors* errors) {
  ProductErrors own;
  DROPLESS_FOR_EACH_INDEX(i, rows * out.leading_dimension) {
    const std::int64_t row = i / out.leading_dimension, column = i % out.leading_dimension;
    const std::int32_t expert = expert_of_row[row];
    const std::int64_t width = expert < 0 ? 0 : d_ff_of(weights, d_ff, expert);
    if (expert < 0 || column >= (d_ff == DffDimension::n ? width : weights.n)) {
      if (!same_bits(out.data, before, i, out.type)) ++own.stray_writes;
      continue;
    }
    Sums sums;
    for (std::int64_t k = 0; k < (d_ff == DffDimension::k ? width : weights.k); ++k) {
      const WeightPlace place = weight_place(weights, d_ff, expert, k, column);
      sums.add(load_element(in.data, row * in.leading_dimension + k, in.type),
               load_element(place.data, place.index, weights.type));
    }
    if (sums_out != nullptr) sums_out[row * weights.n + column] = sums.value;
    judge(own, sums, out.data, before, i, out.type, accumulate);
  }
  add_up(own, errors);
}

__global__ void judge_gradients(ExpertRows rows, RowsView a, RowsView b, ExpertGradients dw,
                                const void* before, bool accumulate, double* sums_out,
                                ProductErrors* errors) {
  ProductErrors own;
  DROPLESS_FOR_EACH_INDEX(i, dw.experts * dw.m * dw.n) {
    const std::int64_t n = i % dw.n, m = i / dw.n % dw.m, expert = i / dw.n / dw.m;
    Sums sums;
    for (std::int64_t row = rows.row_begin[expert]; row < rows.row_begin[expert] + rows.row_count[expert];
         ++row)
      sums.add(load_element(a.data, row * a.leading_dimension + m, a.type),
               load_element(b.data, row * b.leading_dimension + n, b.type));
    if (sums_out != nullptr) sums_out[i] = sums.value;
    const std::int64_t bytes = element_bytes(dw.type);
    const char* base = static_cast<const char*>(dw.data);
    const char* matrix = dw.matrices != nullptr ? static_cast<const char*>(dw.matrices[expert])
                                                : base + expert * dw.expert_stride * bytes;
    judge(own, sums, matrix, static_cast<const char*>(before) + (matrix - base), m * dw.leading_dimension + n,
          dw.type, accumulate);
  }
  add_up(own, errors);
}

__global__ void find_stray_gradients(ExpertGradients dw, const void* before, ProductErrors* errors) {
  ProductErrors own;
  DROPLESS_FOR_EACH_INDEX(i, dw.experts * dw.expert_stride) {
    const std::int64_t within = i % dw.expert_stride;
    const bool inside = within / dw.leading_dimension < dw.m && within % dw.leading_dimension < dw.n;
    if (!inside && !same_bits(dw.data, before, i, dw.type)) ++own.stray_writes;
  }
  add_up(own, errors);
}

__global__ void count_differences(const unsigned char* left, const unsigned char* right, std::int64_t bytes,
                                  unsigned long long* differences) {
  DROPLESS_FOR_EACH_INDEX(i, bytes)
  if (left[i] != right[i]) atomicAdd(differences, 1ull);
}

__global__ void copy_rows(const unsigned char* from, unsigned char* to, const std::int32_t* order,
                          std::int64_t rows, std::int64_t bytes, std::int64_t pitch) {
  DROPLESS_FOR_EACH_INDEX(i, rows * bytes) {
    const std::int64_t row = i / bytes, byte = i % bytes;
    to[row * pitch + byte] = from[order[row] * pitch + byte];
  }
}

}  // namespace

void fill_rows(const ExpertRows& rows, const MutableRowsView& matrix, std::int64_t columns,
               const std::int32_t* widths, float scale, std::uint32_t seed) {
  if (rows.rows_bound == 0) return;
  const DeviceBuffer<std::int32_t> labels = expert_of_each_row(rows);
  write_rows<<<blocks_for(rows.rows_bound * columns), threads>>>(labels.data(), rows.rows_bound, matrix,
                                                                 columns, widths, scale, seed);
  check_launch("write_rows");
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

void fill_weights(const ExpertWeights& weights, DffDimension d_ff, float scale, std::uint32_t seed) {
  const std::int64_t elements = weights.experts * weights.k * weights.n;
  if (elements == 0) return;
  write_weights<<<blocks_for(elements), threads>>>(weights, d_ff, scale, seed);
  check_launch("write_weights");
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

ProductErrors compare_rows_by_weights(const ExpertRows& rows, const RowsView& in,
                                      const ExpertWeights& weights, DffDimension d_ff, const RowsView& out,
                                      const void* before, bool accumulate, double* sums) {
  if (rows.rows_bound == 0) return {};
  const DeviceBuffer<std::int32_t> labels = expert_of_each_row(rows);
  const DeviceBuffer<ProductErrors> errors(std::vector<ProductErrors>(1));
  judge_rows<<<blocks_for(rows.rows_bound * out.leading_dimension), threads>>>(
      labels.data(), rows.rows_bound, in, weights, d_ff, out, before, accumulate, sums, errors.data());
  check_launch("judge_rows");
  return errors.download()[0];
}

ProductErrors compare_weight_gradient(const ExpertRows& rows, const RowsView& a, const RowsView& b,
                                      const ExpertGradients& dw, const void* before, bool accumulate,
                                      double* sums) {
  if (dw.experts == 0) return {};
  const DeviceBuffer<ProductErrors> errors(std::vector<ProductErrors>(1));
  judge_gradients<<<blocks_for(dw.experts * dw.m * dw.n), threads>>>(rows, a, b, dw, before, accumulate, sums,
                                                                     errors.data());
  check_launch("judge_gradients");
  find_stray_gradients<<<blocks_for(dw.experts * dw.expert_stride), threads>>>(dw, before, errors.data());
  check_launch("find_stray_gradients");
  return errors.download()[0];
}

unsigned long long differing_bytes(const void* left, const void* right, std::int64_t bytes) {
  if (bytes == 0) return 0;
  const DeviceBuffer<unsigned long long> differences(std::vector<unsigned long long>(1));
  count_differences<<<blocks_for(bytes), threads>>>(static_cast<const unsigned char*>(left),
                                                    static_cast<const unsigned char*>(right), bytes,
                                                    differences.data());
  check_launch("count_differences");
  return differences.download()[0];
}

void gather_bytes(const void* from, void* to, const std::int32_t* order, std::int64_t rows,
                  std::int64_t bytes, std::int64_t pitch) {
  copy_rows<<<blocks_for(rows * bytes), threads>>>(
      static_cast<const unsigned char*>(from), static_cast<unsigned char*>(to), order, rows, bytes, pitch);
  check_launch("copy_rows");
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
}

}  // namespace dropless::test
