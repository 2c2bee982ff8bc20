// One expert layer's operands in both layouts; its four products timed in rotation. Every product reads or
// writes at least one weight matrix of all experts, which is larger than L2 in the cases worth timing.
#include "blocked_benchmark.hpp"

#include <cmath>
#include <functional>

#include "device_fill.hpp"
#include "device_memory.hpp"
#include "dropless/device_block_topology.hpp"
#include "dropless/expert_products.hpp"
#include "owned_topology.hpp"

namespace dropless::benchmark {
namespace {

constexpr ElementType type = ElementType::bf16;

/// A dense bf16 matrix of random values.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, std::uint32_t seed, double deviation, Stream stream)
      : rows_(rows), columns_(columns), memory_(static_cast<std::size_t>(2 * elements())) {
    fill_random(memory_.data(), elements(), type, seed, static_cast<float>(deviation), stream);
  }
  std::int64_t elements() const { return rows_ * columns_; }
  void* data() const { return memory_.data(); }
  DenseMatrix dense() const { return {data(), rows_, columns_, columns_, type}; }
  RowsView rows() const { return {data(), columns_, type}; }
  MutableRowsView mutable_rows() const { return {data(), columns_, type}; }

 private:
  std::int64_t rows_, columns_;
  DeviceMemory memory_;
};

/// Distance of what `call(KernelPath::automatic)` writes from what the portable kernels write.
template <class Call>
double error_of(const Call& call, const Matrix& out, std::int64_t elements, Stream stream) {
  const DeviceMemory expected(static_cast<std::size_t>(2 * elements));
  call(KernelPath::portable);
  DROPLESS_CUDA_CHECK(
      cudaMemcpyAsync(expected.data(), out.data(), expected.bytes(), cudaMemcpyDeviceToDevice, stream));
  call(KernelPath::automatic);
  return relative_error(out.data(), expected.data(), elements, type, stream);
}

}  // namespace

std::vector<BlockedResult> measure_blocked(const BenchmarkCase& one, std::int64_t block,
                                           const RotationOptions& rotation, Stream stream) {
  const std::int64_t d_model = one.d_model, d_ff = one.d_ff, all_columns = one.experts * d_ff;
  const std::vector<std::int64_t> widths{d_ff};
  const TopologyBounds bounds{one.tokens, one.top_k, one.experts, {}};
  const OwnedTopology owner(bounds, router_ids(one));
  const Topology packed = owner.build(stream);
  const DeviceMemory metadata(device_block_topology_bytes(bounds, block, widths));
  const DeviceBlockTopology blocked =
      build_block_topology(packed, block, widths, metadata.data(), metadata.bytes(), stream);
  BlockCounts counts;
  DROPLESS_CUDA_CHECK(
      cudaMemcpyAsync(&counts, blocked.counts, sizeof counts, cudaMemcpyDeviceToHost, stream));
  DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream));

  const std::int64_t rows = blocked.block_rows_bound * block;
  const double by_d_model = 1 / std::sqrt(static_cast<double>(d_model)),
               by_d_ff = 1 / std::sqrt(static_cast<double>(d_ff));
  const Matrix x(rows, d_model, 1, 1, stream), w1(d_model, all_columns, 2, by_d_model, stream),
      w2(all_columns, d_model, 3, by_d_ff, stream), y(rows, d_model, 4, 1, stream),
      values(blocked.nonzero_blocks_bound * block, block, 5, 1, stream), h(rows, d_ff, 6, 1, stream),
      dw1(d_model, all_columns, 7, 1, stream), dw2(all_columns, d_model, 8, 1, stream);
  clear_padding_rows(blocked, x.mutable_rows(), d_model, stream);
  const BlockSparseMatrix sparse = blocked.matrix(type, values.data());

  ExpertWeights up, down;
  up.experts = down.experts = one.experts;
  up.k = down.n = down.leading_dimension = d_model;
  up.n = down.k = d_ff;
  up.leading_dimension = all_columns;
  up.first = {w1.data(), d_ff};
  down.first = {w2.data(), d_ff * d_model};
  ExpertGradients down_gradient, up_gradient;
  down_gradient.experts = up_gradient.experts = one.experts;
  down_gradient.m = up_gradient.n = d_ff;
  down_gradient.n = down_gradient.leading_dimension = up_gradient.m = d_model;
  down_gradient.expert_stride = d_ff * d_model;
  down_gradient.data = dw2.data();
  up_gradient.leading_dimension = d_ff;
  up_gradient.expert_stride = d_ff * d_model;
  up_gradient.data = dw1.data();

  struct Contest {
    const char* product;
    const Matrix& out;
    std::int64_t blocked_elements;
    KernelPath path;
    std::function<void()> packed;
    std::function<void(KernelPath)> blocked;
  };
  const ExpertRows expert_rows = packed.expert_rows();
  const std::int64_t row_elements = counts.block_rows * block * d_model;
  const Contest contests[] = {
      {"sdd", values, counts.nonzero_blocks * block * block, sdd_path(x.dense(), w1.dense(), sparse),
       [&] { sdd(expert_rows, x.rows(), up, h.mutable_rows(), {}, stream); },
       [&](KernelPath path) { sdd(x.dense(), w1.dense(), sparse, stream, path); }},
      {"dsd", y, row_elements, dsd_path(sparse, w2.dense(), y.dense()),
       [&] { dsd(expert_rows, h.rows(), down, y.mutable_rows(), {}, stream); },
       [&](KernelPath path) { dsd(sparse, w2.dense(), y.dense(), stream, path); }},
      {"dsd^T", dw2, dw2.elements(), dsd_path(transposed(sparse), x.dense(), dw2.dense()),
       [&] { weight_gradient(expert_rows, h.rows(), x.rows(), down_gradient, {}, stream); },
       [&](KernelPath path) { dsd(transposed(sparse), x.dense(), dw2.dense(), stream, path); }},
      {"dds", dw1, dw1.elements(), dds_path(transposed(x.dense()), sparse, dw1.dense()),
       [&] { weight_gradient(expert_rows, x.rows(), h.rows(), up_gradient, {}, stream); },
       [&](KernelPath path) { dds(transposed(x.dense()), sparse, dw1.dense(), stream, path); }}};

  std::vector<BlockedResult> results;
  for (const Contest& contest : contests) {
    BlockedResult result;
    result.product = contest.product;
    result.flops = 2.0 * static_cast<double>(one.rows() * d_model * d_ff);
    result.hopper = contest.path == KernelPath::sm90;
    result.error = error_of(contest.blocked, contest.out, contest.blocked_elements, stream);
    const std::vector<Timing> timings =
        time_in_rotation({{"packed", [&](std::int64_t) { contest.packed(); }},
                          {"blocked", [&](std::int64_t) { contest.blocked(KernelPath::automatic); }},
                          {"blocked portable", [&](std::int64_t) { contest.blocked(KernelPath::portable); }}},
                         rotation, stream);
    result.packed = timings[0];
    result.blocked = timings[1];
    result.blocked_portable = timings[2];
    results.push_back(result);
  }
  return results;
}

}  // namespace dropless::benchmark
