// Measures one product of one case: dropless and its peers over the same operands, checked against cuBLAS
// before any of them is timed.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cublas_peers.hpp"
#include "device_memory.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/topology.hpp"
#include "gpu_state.hpp"
#include "operand_ring.hpp"
#include "product_score.hpp"
#include "timing.hpp"

namespace dropless::benchmark {

/// What to measure and how.
struct ProductBenchmarkOptions {
  ElementType type = ElementType::bf16;
  WeightOrder weight_order =
      WeightOrder::n_by_k;  ///< of the forward products; gradients read the same memory
  ProductOptions product{.exclusive_rows = true};    // one product at a time
  bool loop = true, streams = true, grouped = true;  ///< peers beside the dense product
  RotationOptions rotation;
};

struct ContestantResult {
  std::string name;
  Timing timing;
  double error =
      0;  ///< relative Frobenius distance from cuBLAS called expert by expert; 0 for the dense product
  double score = 0;
};

struct ProductResult {
  Product product;
  ProductShape shape;
  KernelPath path;
  double least_bytes = 0;
  double reference_us = 0;
  bool memory_bound = false;  ///< the reference is the bytes, not the dense product
  std::vector<ContestantResult>
      contestants;     ///< dropless first, then cublas_dense; those that ran and were right
  double error = 0;    ///< of dropless
  bool right = false;  ///< false: dropless was not timed
  std::map<std::string, std::string> failed_peers;  ///< name -> why
  std::optional<GpuSample> gpu;                     ///< while dropless ran
};

/// How far a result may lie from cuBLAS's: relative Frobenius distance, by the element type of both.
double product_tolerance(ElementType type);

class ProductBenchmark {
 public:
  /// Allocates operands for the largest of `shapes` once; every measurement reuses them.
  ProductBenchmark(const std::vector<ProductShape>& shapes, const ProductBenchmarkOptions& options,
                   double memory_tbps, const GpuState& gpu, Stream stream);

  /// `rows` are the case's rows on the device, `benchmark_case` the same on the host. Waits for the stream.
  ProductResult measure(const BenchmarkCase& benchmark_case, const ExpertRows& rows, Product product);

  int cublas_version() const { return cublas_.version(); }

 private:
  struct PoolBytes {
    std::int64_t a = 0, b = 0, weights = 0, result = 0;
  };
  static PoolBytes pool_bytes(const std::vector<ProductShape>& shapes, ElementType type);
  ProductBenchmark(const PoolBytes& bytes, const ProductBenchmarkOptions& options, double memory_tbps,
                   const GpuState& gpu, Stream stream);

  OperandRing make_ring(const ProductShape& shape, Product product) const;
  void fill_operands(const OperandRing& ring) const;
  double error_of(const Call& call, const OperandRing& ring) const;

  ProductBenchmarkOptions options_;
  double memory_tbps_;
  const GpuState& gpu_;
  Stream stream_;
  CublasPeers cublas_;
  DeviceMemory a_, b_, weights_, expected_;
};

}  // namespace dropless::benchmark
