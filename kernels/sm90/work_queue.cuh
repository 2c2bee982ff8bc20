// How one thread of a block that knows the work hands it to the others, a few pieces ahead: what it takes to
// find the next piece (reading the caller's arrays, one after the other) then delays nobody.
#pragma once
#include <cstring>
#include <type_traits>

#include "sm90/ptx.cuh"

namespace dropless::sm90 {

/// In shared memory. Every reader takes every piece, in order; Work{} ends the list, so that
/// `is_work(Work{})` is false.
template <class Work>
struct WorkQueue {
  static constexpr int slots = 4;
  Work work[slots];
  std::uint64_t filled[slots], read[slots];

  /// By one thread, before a barrier of the block that makes barriers visible. readers: calls of take for
  /// each piece.
  __device__ void initialise(int readers) {
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(&filled[slot], 1);
      ptx::mbarrier_init(&read[slot], readers);
    }
  }
};

/// Writer's or reader's place in the queue.
template <class Work>
class WorkQueueEnd {
 public:
  __device__ explicit WorkQueueEnd(WorkQueue<Work>& queue) : queue_(queue) {}

  __device__ void put(const Work& work) {
    wait(queue_.read[slot_], parity_ ^ 1);
    queue_.work[slot_] = work;
    ptx::mbarrier_arrive(&queue_.filled[slot_]);
    advance();
  }

  /// Called by one thread.
  __device__ Work take() {
    wait(queue_.filled[slot_], parity_);
    const Work work = queue_.work[slot_];
    ptx::mbarrier_arrive(&queue_.read[slot_]);
    advance();
    return work;
  }

  /// Called by a whole warp, as one reader. Its first lane reads, and arrives after its own reads, when all
  /// lanes have waited: a late one could find the slot filled again.
  __device__ Work take_by_warp() {
    static_assert(std::is_trivially_copyable_v<Work> && sizeof(Work) % sizeof(std::uint32_t) == 0);
    std::uint32_t words[sizeof(Work) / sizeof(std::uint32_t)] = {};
    wait(queue_.filled[slot_], parity_);
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      std::memcpy(words, &queue_.work[slot_], sizeof(Work));
      ptx::mbarrier_arrive(&queue_.read[slot_]);
    }
    advance();
    for (std::uint32_t& word : words) word = uniform(word);
    Work work;
    std::memcpy(&work, words, sizeof(Work));
    return work;
  }

 private:
  __device__ void advance() {
    if (++slot_ == WorkQueue<Work>::slots) slot_ = 0, parity_ ^= 1;
  }

  WorkQueue<Work>& queue_;
  int slot_ = 0;
  std::uint32_t parity_ = 0;
};

}  // namespace dropless::sm90
