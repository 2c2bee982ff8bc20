// What the block-sparse products of an expert layer take over a MegaBlocks topology, beside the packed
// products of the same routing: bf16, the experts' weights side by side in one [d_model, experts d_ff] and
// one [experts d_ff, d_model] matrix that both layouts read.
#pragma once
#include <string>
#include <vector>

#include "benchmark_cases.hpp"
#include "dropless/stream.hpp"
#include "timing.hpp"

namespace dropless::benchmark {

struct BlockedResult {
  std::string product;  ///< "sdd", "dsd", "dsd^T" (gradient of the down weights) or "dds" (of the up weights)
  double flops = 0;     ///< of the useful rows
  bool hopper = false;  ///< whether blocked.timing is of the Hopper kernel
  Timing packed, blocked, blocked_portable;
  double error = 0;  ///< relative Frobenius distance of blocked from blocked_portable
};

/// Allocates, and waits for the stream. An up matrix is d_ff wide, whatever the case's kind of MLP.
std::vector<BlockedResult> measure_blocked(const BenchmarkCase& benchmark_case, std::int64_t block,
                                           const RotationOptions& rotation, Stream stream);

}  // namespace dropless::benchmark
