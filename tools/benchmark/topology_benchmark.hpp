// What the topology and the permutations take on this GPU: microseconds of a build replayed from a graph, and
// the rate at which rows move, beside the copy rate.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/stream.hpp"

namespace dropless::benchmark {

struct TopologyPoint {
  std::int64_t tokens = 0, top_k = 0, experts = 0;
  bool skewed = false;  ///< experts of low number far more often than others; else uniform
};

struct TopologyResult {
  TopologyPoint point;
  std::size_t launches = 0;    ///< kernels of one build
  double alone_us = 0;         ///< a graph of one build, replayed back to back
  double alone_spread = 0;     ///< (slowest - fastest) / median of the rounds
  double within_graph_us = 0;  ///< one of many builds inside one graph
  double within_graph_spread = 0;
  std::size_t metadata_bytes = 0, workspace_bytes = 0;
};

struct PermutationPoint {
  std::int64_t tokens = 0, top_k = 0, experts = 0, d_model = 0;
};

struct PermutationResult {
  PermutationPoint point;
  std::string call;  ///< "gather", "combine" or "combine_backward"
  double us = 0, spread = 0;
  std::int64_t bytes = 0;  ///< each distinct input byte and each output byte once
  double tbps() const { return 1e-6 * static_cast<double>(bytes) / us; }
};

/// Ids are made on the host from a fixed seed. Both calls allocate, and wait for the stream.
TopologyResult measure_topology(const TopologyPoint& point, Stream stream);
/// bf16 rows. Operands rotate through more memory than the L2 cache holds.
std::vector<PermutationResult> measure_permutation(const PermutationPoint& point, Stream stream);

}  // namespace dropless::benchmark
