// Builds are captured in graphs and replayed; rows move through matrices taken in turn, so that none is
// found in the L2 cache.
#include "topology_benchmark.hpp"

#include <algorithm>
#include <random>

#include "device_memory.hpp"
#include "device_stream.hpp"
#include "dropless/permutation.hpp"
#include "owned_topology.hpp"
#include "timing.hpp"

namespace dropless::benchmark {
namespace {

/// So many builds a graph that its own launch does not show.
constexpr int builds_in_graph = 20;

/// Each token names top_k different experts.
std::vector<std::int32_t> router_ids(const TopologyPoint& point) {
  std::mt19937_64 random(1);
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> last_token(static_cast<std::size_t>(point.experts), -1);
  for (std::int64_t token = 0; token < point.tokens; ++token)
    for (std::int64_t slot = 0; slot < point.top_k;) {
      // The product of two uniform numbers leans towards low experts.
      double draw = std::uniform_real_distribution<double>()(random);
      if (point.skewed) draw *= std::uniform_real_distribution<double>()(random);
      const auto expert = static_cast<std::size_t>(draw * static_cast<double>(point.experts));
      if (last_token[expert] == token) continue;
      last_token[expert] = token;
      ids.push_back(static_cast<std::int32_t>(expert));
      ++slot;
    }
  return ids;
}

TopologyBounds bounds_of(const TopologyPoint& point) {
  return {point.tokens, point.top_k, point.experts, {}};
}

/// `slots` matrices of `elements` bf16 elements, taken in turn; their bytes are a small positive number each.
class MatrixRing {
 public:
  MatrixRing(std::int64_t slots, std::int64_t elements)
      : slots_(slots), slot_bytes_(elements * 2), memory_(static_cast<std::size_t>(slots * slot_bytes_)) {
    DROPLESS_CUDA_CHECK(cudaMemset(memory_.data(), 0x3c, memory_.bytes()));
  }
  void* at(std::int64_t index) const {
    return static_cast<unsigned char*>(memory_.data()) + index % slots_ * slot_bytes_;
  }

 private:
  std::int64_t slots_, slot_bytes_;
  DeviceMemory memory_;
};

}  // namespace

TopologyResult measure_topology(const TopologyPoint& point, Stream stream) {
  const OwnedTopology topology(bounds_of(point), router_ids(point));
  const CapturedGraph alone(stream, [&] { topology.build(stream); });
  const CapturedGraph many(stream, [&] {
    for (int i = 0; i < builds_in_graph; ++i) topology.build(stream);
  });
  const std::vector<Timing> timings = time_in_rotation(
      {{"alone", [&](std::int64_t) { alone.replay(); }}, {"within", [&](std::int64_t) { many.replay(); }}},
      {}, stream);
  TopologyResult result;
  result.point = point;
  result.launches = alone.nodes();
  result.alone_us = timings[0].median_us;
  result.alone_spread = timings[0].spread;
  result.within_graph_us = timings[1].median_us / builds_in_graph;
  result.within_graph_spread = timings[1].spread;
  result.metadata_bytes = topology.metadata_bytes();
  result.workspace_bytes = topology.workspace_bytes();
  return result;
}

std::vector<PermutationResult> measure_permutation(const PermutationPoint& point, Stream stream) {
  const TopologyPoint routing{point.tokens, point.top_k, point.experts, false};
  const OwnedTopology owned(bounds_of(routing), router_ids(routing));
  const RowOrder order = owned.build(stream).row_order();
  const std::int64_t assignments = point.tokens * point.top_k, columns = point.d_model;
  const std::int64_t token_bytes = 2 * point.tokens * columns, row_bytes = 2 * assignments * columns;
  const std::int64_t slots = ceil_div(least_bytes_per_turn, token_bytes + row_bytes);
  const MatrixRing tokens(slots, point.tokens * columns), rows(slots, assignments * columns);
  const MatrixRing rows_gradient(slots, assignments * columns);
  const DeviceMemory weights(static_cast<std::size_t>(assignments) * sizeof(float)),
      weights_gradient(static_cast<std::size_t>(assignments) * sizeof(float));
  DROPLESS_CUDA_CHECK(cudaMemset(weights.data(), 0x3c, weights.bytes()));
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());

  const auto view = [&](const MatrixRing& ring, std::int64_t i) {
    return RowsView{ring.at(i), columns, ElementType::bf16};
  };
  const auto mutable_view = [&](const MatrixRing& ring, std::int64_t i) {
    return MutableRowsView{ring.at(i), columns, ElementType::bf16};
  };
  const auto* const routing_weights = static_cast<const float*>(weights.data());
  const std::vector<Contestant> contestants{
      {"gather",
       [&](std::int64_t i) { gather(order, view(tokens, i), mutable_view(rows, i), columns, stream); }},
      {"combine",
       [&](std::int64_t i) {
         combine(order, view(rows, i), routing_weights, mutable_view(tokens, i), columns, false, stream);
       }},
      {"combine_backward", [&](std::int64_t i) {
         combine_backward(order, view(rows, i), routing_weights, view(tokens, i),
                          {mutable_view(rows_gradient, i), static_cast<float*>(weights_gradient.data())},
                          columns, stream);
       }}};
  const std::int64_t order_bytes = 4 * assignments;
  const std::vector<std::int64_t> bytes{token_bytes + row_bytes + order_bytes,
                                        token_bytes + row_bytes + 2 * order_bytes,
                                        token_bytes + 2 * row_bytes + 3 * order_bytes};
  const std::vector<Timing> timings = time_in_rotation(contestants, {}, stream);
  std::vector<PermutationResult> results;
  for (std::size_t i = 0; i < contestants.size(); ++i)
    results.push_back({point, contestants[i].name, timings[i].median_us, timings[i].spread, bytes[i]});
  return results;
}

}  // namespace dropless::benchmark
