// The loader's walk over the tiles of a product of rows by weights: it finds each next tile while it loads
// the one before, and hands every tile on to the block's other threads.
#pragma once
#include <type_traits>

#include "sm90/tile_schedule.hpp"
#include "sm90/tile_turns.cuh"
#include "sm90/work_queue.cuh"

namespace dropless::sm90 {

/// Used by one thread of the block, for k of at least 1. Turns: as TileTurns. work_at(place): the work there,
/// which may be more than what the queue takes; Work{} past the last place, which ends the walk and the
/// queue:
///
///   for (Work work = walk.first(); work is some; work = walk.next())
///     for (int block = 0; block < k_blocks; ++block) { ...; walk.after(block); }
template <class Work, class Turns, class WorkAt>
class TileWalk {
  using Found = std::invoke_result_t<WorkAt, std::uint32_t>;

 public:
  __device__ TileWalk(WorkQueue<Work>& queue, const Turns& turns, const TileSchedule& schedule, int k_blocks,
                      const WorkAt& work_at)
      : queue_(queue),
        turns_(turns),
        schedule_(schedule),
        work_at_(work_at),
        ask_(max(k_blocks - turns.lead() - 1, 0)),
        look_(max(k_blocks - turns.lead(), 0)) {}

  __device__ Found first() {
    place_ = turns_.first_some(schedule_);
    next_ = work_at_(place_);
    return next();
  }
  __device__ Found next() {
    const Found work = next_;
    next_ = {};
    queue_.put(work);
    return work;
  }
  /// The next place is asked for as late as its answers, a counter's and a tile's, can come in time.
  __device__ void after(int block) {
    if (block == ask_) place_ = turns_.after(place_);
    if (block == look_) {
      place_ = turns_.some_from(place_, schedule_);
      next_ = work_at_(place_);
    }
  }

 private:
  WorkQueueEnd<Work> queue_;
  Turns turns_;
  const TileSchedule& schedule_;
  const WorkAt work_at_;
  const int ask_, look_;
  std::uint32_t place_ = 0;
  Found next_{};
};

}  // namespace dropless::sm90
