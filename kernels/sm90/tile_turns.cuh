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
/// these wraps it. together: so many blocks compute each place, one of which takes for all of them; what is
/// said of blocks here is then said of these groups.
template <FixedOrder order, std::uint32_t together = 1>
class TileTurns {
 public:
  __device__ TileTurns(std::uint32_t* counter, std::uint32_t size) : counter_(counter), size_(size) {}

  __device__ std::uint32_t first() const { return own(); }

  /// Called by one thread of the block, alone in its warp. A place past the last one: there is no more.
  __device__ std::uint32_t after(std::uint32_t place) const {
    if (counter_ != nullptr) return uniform(atomicInc(counter_, size_ - 1), own_lane()) + all();
    if (order == FixedOrder::to_and_fro) return dealt_place(place / all() + 1, own(), all());
    return place + all();
  }

  /// The newest place that any block is known to have taken, for one that takes `place` or the next now.
  __device__ std::uint32_t newest(std::uint32_t place) const {
    if (counter_ == nullptr) return place;
    const std::uint32_t taken = *static_cast<const volatile std::uint32_t*>(counter_) + all() - 1;
    return max(place, min(taken, size_ - 1));
  }

  /// The first place of this block at which the schedule has something.
  template <class Schedule>
  __device__ std::uint32_t first_some(const Schedule& schedule) const {
    return some_from(first(), schedule);
  }
  /// `place`, or where the schedule has nothing there, the first place after it where it has.
  template <class Schedule>
  __device__ std::uint32_t some_from(std::uint32_t place, const Schedule& schedule) const {
    while (schedule.is_empty(place)) place = after(place);
    return place;
  }
  /// How many k blocks before the end of its tile a loader wants the next place.
  __device__ static int lead() { return 2; }

 private:
  __device__ static std::uint32_t own() { return blockIdx.x / together; }
  __device__ static std::uint32_t all() { return gridDim.x / together; }

  std::uint32_t* const counter_;
  const std::uint32_t size_;
};

}  // namespace dropless::sm90
