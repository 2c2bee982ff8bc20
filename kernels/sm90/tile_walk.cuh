// The loader's walk over the tiles of a product of rows by weights: it finds each next tile while it loads
// the one before, and hands every tile on to the block's other threads.
#pragma once
#include "sm90/tile_schedule.hpp"
#include "sm90/tile_turns.cuh"
#include "sm90/work_queue.cuh"

namespace dropless::sm90 {

/// Used by one thread of the block, for k of at least 1. work_at(place): the work there; Work{} past the last
/// place, which ends the walk and the queue:
///
///   for (Work work = walk.first(); work is some; work = walk.next())
///     for (int block = 0; block < k_blocks; ++block) { ...; walk.after(block); }
template <class Work, class WorkAt>
class TileWalk {
 public:
  __device__ TileWalk(WorkQueue<Work>& queue, std::uint32_t* counter, const TileSchedule& schedule,
                      int k_blocks, const WorkAt& work_at)
      : queue_(queue),
        turns_(counter, schedule.size()),
        schedule_(schedule),
        work_at_(work_at),
        ask_(max(k_blocks - 3, 0)),
        look_(max(k_blocks - 2, 0)) {}

  __device__ Work first() {
    place_ = turns_.first();
    look();
    return next();
  }
  __device__ Work next() {
    const Work work = next_;
    next_ = {};
    queue_.put(work);
    return work;
  }
  /// The next place is asked for as late as its answers, a counter's and a tile's, can come in time.
  __device__ void after(int block) {
    if (block == ask_) place_ = turns_.after(place_);
    if (block == look_) look();
  }

 private:
  __device__ void look() {
    while (schedule_.is_empty(place_)) place_ = turns_.after(place_);
    next_ = work_at_(place_);
  }

  WorkQueueEnd<Work> queue_;
  const TileTurns<FixedOrder::round_robin> turns_;
  const TileSchedule& schedule_;
  const WorkAt work_at_;
  const int ask_, look_;
  std::uint32_t place_ = 0;
  Work next_{};
};

}  // namespace dropless::sm90
