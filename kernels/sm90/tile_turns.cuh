// Which place of a schedule a block of a persistent grid computes next: dealt in a fixed order, or taken from
// a counter in memory by whichever block is free first. Blocks do not run equally fast - tiles differ in
// rows, and multiprocessors in their way to L2 - and with a fixed order the slowest decides the end.
#pragma once
#include "sm90/expert_order.hpp"
#include "sm90/ptx.cuh"

namespace dropless::sm90 {

enum class FixedOrder { round_robin, to_and_fro };

/// Places are 0 .. size - 1; a block starts at its own number. The counter, where there is one, must be zero
/// before the kernel and is zero after it: whatever their number, the blocks take from it `size` times in all
/// (each place past the first ones once, and once in vain for each block that had work), and the last of
/// these wraps it.
template <FixedOrder order>
class TileTurns {
 public:
  __device__ TileTurns(std::uint32_t* counter, std::uint32_t size) : counter_(counter), size_(size) {}

  __device__ std::uint32_t first() const { return blockIdx.x; }

  /// Called by one thread of the block, alone in its warp. A place past the last one: there is no more.
  __device__ std::uint32_t after(std::uint32_t place) const {
    if (counter_ != nullptr) return uniform(atomicInc(counter_, size_ - 1), own_lane()) + gridDim.x;
    if (order == FixedOrder::to_and_fro) return dealt_place(place / gridDim.x + 1, blockIdx.x, gridDim.x);
    return place + gridDim.x;
  }

 private:
  std::uint32_t* const counter_;
  const std::uint32_t size_;
};

}  // namespace dropless::sm90
