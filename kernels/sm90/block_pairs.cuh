// Two neighbouring blocks as a cluster: where both multiply by the same operand, each loads half of it and
// the hardware delivers it to both, so that it crosses from L2 once.
#pragma once
#include <algorithm>

#include "launch.cuh"
#include "sm90/ptx.cuh"

namespace dropless::sm90 {

/// Whether pairs pay: on an H200 products with k of 4096 and more whose experts have several row tiles gain
/// 2 to 7 %, since blocks that share many stages drift apart and read their operands from memory again;
/// shorter or smaller ones lose up to 5 % to waiting for each other. Host-known bounds decide.
constexpr bool pairs_pay(std::int64_t rows_bound, std::int64_t experts, std::int64_t k,
                         std::int32_t tile_rows) {
  return k >= 4096 && rows_bound >= 2 * tile_rows * experts;
}

/// A persistent grid for `work` tiles (at least 1) on at most `multiprocessors`; with pairs, block b and its
/// neighbour b ^ 1 are a cluster.
inline Grid persistent_grid(std::int64_t work, int multiprocessors, bool pairs) {
  const std::uint32_t cluster = pairs && multiprocessors > 1 ? 2 : 1;
  const std::int64_t blocks =
      std::min<std::int64_t>(round_up(work, cluster), multiprocessors / cluster * cluster);
  return {dim3(static_cast<std::uint32_t>(blocks)), cluster};
}

/// The loader's agreement with the loader of the other block, stage by stage: a shared operand may come into
/// a stage when both blocks have emptied it. Both must be at the same stage of their rings.
class PeerStages {
 public:
  /// This block can receive `stage`: it is empty, and its barrier expects the bytes.
  template <class Memory>
  __device__ void announce(Memory& memory, int stage) const {
    arrive_at(memory.peer_empty[stage], 1 - cluster_rank());
  }
  /// Waits for the other block's announcement.
  template <class Memory>
  __device__ void wait(Memory& memory, int stage) {
    sm90::wait(memory.peer_empty[stage], parities_ >> stage & 1);
    parities_ ^= 1u << stage;
  }

 private:
  std::uint32_t parities_ = 0;  // a bit for each stage
};

/// A block of a pair ends after the other can no longer write to it. Threads that ended before do not count.
__device__ inline void leave_cluster() {
  if (cluster_blocks() > 1) wait_for_cluster();
}

}  // namespace dropless::sm90
