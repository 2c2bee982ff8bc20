// Operands for the largest product, every contestant checked before it is timed, all of them timed in
// rotation.
#include "product_benchmark.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cuda_check.hpp"
#include "device_fill.hpp"
#include "device_stream.hpp"

namespace dropless::benchmark {
namespace {

/// up and the gradient through down fill the sparse matrix; down and the gradient through up consume it.
bool is_sdd(Product product) { return product == Product::up || product == Product::down_dgrad; }

/// dropless over the ring's operands as its calls take them.
class DroplessOperands {
 public:
  DroplessOperands(const OperandRing& ring, const ExpertRows& rows, Product product)
      : ring_(ring), rows_(rows), product_(product) {}

  void launch(std::int64_t index, const ProductOptions& options, Stream stream) const {
    if (is_weight_gradient(product_))
      weight_gradient(rows_, a(index), b(index), gradients(index), options, stream);
    else if (is_sdd(product_))
      sdd(rows_, a(index), weights(index), out(index), options, stream);
    else
      dsd(rows_, a(index), weights(index), out(index), options, stream);
  }
  KernelPath automatic_path() const {
    if (is_weight_gradient(product_)) return weight_gradient_path(rows_, a(0), b(0), gradients(0));
    return is_sdd(product_) ? sdd_path(rows_, a(0), weights(0), out(0))
                            : dsd_path(rows_, a(0), weights(0), out(0));
  }

 private:
  const ProductShape& shape() const { return ring_.layout.shape; }
  RowsView a(std::int64_t index) const { return {ring_.a_at(index), shape().k, ring_.layout.type}; }
  RowsView b(std::int64_t index) const { return {ring_.b_at(index), shape().n, ring_.layout.type}; }
  MutableRowsView out(std::int64_t index) const { return {ring_.b_at(index), shape().n, ring_.layout.type}; }
  ExpertWeights weights(std::int64_t index) const {
    ExpertWeights result;
    result.type = ring_.layout.type;
    result.experts = shape().experts;
    result.k = shape().k;
    result.n = shape().n;
    result.order = ring_.order;
    result.leading_dimension = ring_.order == WeightOrder::k_by_n ? shape().n : shape().k;
    result.first.data = ring_.weights_at(index);
    result.first.expert_stride = shape().k * shape().n;
    return result;
  }
  ExpertGradients gradients(std::int64_t index) const {
    ExpertGradients result;
    result.type = ring_.layout.type;
    result.experts = shape().experts;
    result.m = shape().k;
    result.n = shape().n;
    result.leading_dimension = shape().n;
    result.expert_stride = shape().k * shape().n;
    result.data = ring_.weights_at(index);
    return result;
  }

  const OperandRing& ring_;
  ExpertRows rows_;
  Product product_;
};

WeightOrder flipped(WeightOrder order) {
  return order == WeightOrder::k_by_n ? WeightOrder::n_by_k : WeightOrder::k_by_n;
}

}  // namespace

double product_tolerance(ElementType type) { return type == ElementType::bf16 ? 5e-3 : 1e-3; }

ProductBenchmark::PoolBytes ProductBenchmark::pool_bytes(const std::vector<ProductShape>& shapes,
                                                         ElementType type) {
  PoolBytes most;
  for (const ProductShape& shape : shapes) {
    const RingLayout layout(shape, type);
    most.a = std::max(most.a, layout.row_slots * layout.a_bytes);
    most.b = std::max(most.b, layout.row_slots * layout.b_bytes);
    most.weights = std::max(most.weights, layout.weight_copies * layout.weight_bytes);
    most.result = std::max(most.result, shape.weight_gradient ? layout.weight_bytes : layout.b_bytes);
  }
  return most;
}

ProductBenchmark::ProductBenchmark(const std::vector<ProductShape>& shapes,
                                   const ProductBenchmarkOptions& options, double memory_tbps,
                                   const GpuState& gpu, Stream stream)
    : ProductBenchmark(pool_bytes(shapes, options.type), options, memory_tbps, gpu, stream) {}

ProductBenchmark::ProductBenchmark(const PoolBytes& bytes, const ProductBenchmarkOptions& options,
                                   double memory_tbps, const GpuState& gpu, Stream stream)
    : options_(options),
      memory_tbps_(memory_tbps),
      gpu_(gpu),
      stream_(stream),
      cublas_(stream),
      a_(static_cast<std::size_t>(bytes.a)),
      b_(static_cast<std::size_t>(bytes.b)),
      weights_(static_cast<std::size_t>(bytes.weights)),
      expected_(static_cast<std::size_t>(bytes.result)) {}

OperandRing ProductBenchmark::make_ring(const ProductShape& shape, Product product) const {
  const WeightOrder order =
      is_input_gradient(product) ? flipped(options_.weight_order) : options_.weight_order;
  return {RingLayout(shape, options_.type), order, static_cast<std::byte*>(a_.data()),
          static_cast<std::byte*>(b_.data()), static_cast<std::byte*>(weights_.data())};
}

void ProductBenchmark::fill_operands(const OperandRing& ring) const {
  const RingLayout& layout = ring.layout;
  const std::int64_t bytes = element_bytes(layout.type);
  fill_random(ring.a, layout.row_slots * layout.a_bytes / bytes, layout.type, 1, 1.0f, stream_);
  if (layout.shape.weight_gradient)
    fill_random(ring.b, layout.row_slots * layout.b_bytes / bytes, layout.type, 2, 1.0f, stream_);
  else  // outputs of order one
    fill_random(ring.weights, layout.weight_copies * layout.weight_bytes / bytes, layout.type, 3,
                1 / std::sqrt(static_cast<float>(layout.shape.k)), stream_);
}

double ProductBenchmark::error_of(const Call& call, const OperandRing& ring) const {
  const std::int64_t elements = ring.result_elements();
  DROPLESS_CUDA_CHECK(cudaMemsetAsync(ring.result_at(0), 0xff,
                                      static_cast<std::size_t>(elements * element_bytes(ring.layout.type)),
                                      stream_));
  call(0);
  return relative_error(ring.result_at(0), expected_.data(), elements, ring.layout.type, stream_);
}

ProductResult ProductBenchmark::measure(const BenchmarkCase& benchmark_case, const ExpertRows& rows,
                                        Product product) {
  const OperandRing ring = make_ring(product_shape(benchmark_case, product), product);
  const DroplessOperands operands(ring, rows, product);
  const Call dropless_call = [&](std::int64_t index) { operands.launch(index, options_.product, stream_); };
  const std::vector<std::int64_t>& rows_per_expert = benchmark_case.rows_per_expert;

  ProductResult result;
  result.product = product;
  result.shape = ring.layout.shape;
  result.path =
      options_.product.path == KernelPath::automatic ? operands.automatic_path() : options_.product.path;
  result.least_bytes = static_cast<double>(ring.layout.shape.cost(options_.type).bytes());

  fill_operands(ring);
  const Call loop = cublas_.loop(ring, rows_per_expert);
  loop(0);
  DROPLESS_CUDA_CHECK(
      cudaMemcpyAsync(expected_.data(), ring.result_at(0),
                      static_cast<std::size_t>(ring.result_elements() * element_bytes(options_.type)),
                      cudaMemcpyDeviceToDevice, stream_));
  const double tolerance = product_tolerance(options_.type);
  result.error = error_of(dropless_call, ring);
  result.right = result.error <= tolerance;

  std::vector<Contestant> contestants;
  std::vector<double> errors;
  if (result.right) {
    contestants.push_back({"dropless", dropless_call});
    errors.push_back(result.error);
  }
  contestants.push_back({"cublas_dense", cublas_.dense(ring)});
  errors.push_back(0);
  const auto add_peer = [&](const char* name, auto&& make_call) {
    try {
      const Call call = make_call();
      const double error = error_of(call, ring);
      if (!(error <= tolerance))
        throw Error(std::string("error of ") + name, std::to_string(error),
                    "at most " + std::to_string(tolerance));
      if (options_.rotation.graph) CapturedGraph(stream_, [&] { call(0); });  // a peer may refuse
      contestants.push_back({name, call});
      errors.push_back(error);
    } catch (const Error& error) {
      result.failed_peers[name] = error.what();
    }
  };
  if (options_.loop) add_peer("cublas_loop", [&] { return loop; });
  if (options_.streams) add_peer("cublas_streams", [&] { return cublas_.streams(ring, rows_per_expert); });
  if (options_.grouped) add_peer("cublas_grouped", [&] { return cublas_.grouped(ring, rows_per_expert); });

  const std::vector<Timing> timings = time_in_rotation(contestants, options_.rotation, stream_);
  const std::size_t dense = result.right ? 1 : 0;
  result.reference_us = reference_us(timings[dense].median_us, result.least_bytes, memory_tbps_);
  result.memory_bound = result.reference_us > timings[dense].median_us;
  for (std::size_t i = 0; i < contestants.size(); ++i)
    result.contestants.push_back(
        {contestants[i].name, timings[i], errors[i], result.reference_us / timings[i].median_us});

  if (result.right) {
    // The clocks and the power of the work, not of the pause after it.
    const auto calls = static_cast<std::int64_t>(3 * options_.rotation.batch_us / timings[0].median_us) + 1;
    for (std::int64_t index = 0; index < calls; ++index) dropless_call(index);
    result.gpu = gpu_.sample();
    DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream_));
  }
  return result;
}

}  // namespace dropless::benchmark
