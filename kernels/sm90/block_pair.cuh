// How the two blocks of a pair (a cluster of two) keep in step: the first takes places from the counter and
// tells the second, and each tells the other when a stage may take the weights that both load for both.
#pragma once
#include "sm90/pair_schedule.hpp"
#include "sm90/tile_pipeline.cuh"
#include "sm90/tile_turns.cuh"

namespace dropless::sm90 {

/// In the shared memory of both blocks, beside what a block has for itself.
struct PairMemory {
  static constexpr int slots = 4;
  std::uint32_t place[slots];                  // the second block's: on their way from the first
  std::uint64_t sent[slots], received[slots];  // the second's: a place is there; the first's: it was read
  std::uint64_t other_ready[stages];           // the other block's stage may be written

  /// By one thread, before a barrier of the cluster that makes barriers visible.
  __device__ void initialise() {
    for (int slot = 0; slot < slots; ++slot) {
      ptx::mbarrier_init(&sent[slot], 1);
      ptx::mbarrier_init(&received[slot], 1);
    }
    for (std::uint64_t& barrier : other_ready) ptx::mbarrier_init(&barrier, 1);
  }
};

/// TileTurns of a pair. With a counter the first block takes the pair's places and tells the second; without
/// one each of them knows. They ask alike, so that what one sends the other waits for: one place for a tile,
/// since the second may wait for the first one's stages before it reads the next.
class PairTurns {
 public:
  __device__ PairTurns(PairMemory& memory, std::uint32_t* counter, std::uint32_t size)
      : memory_(memory), turns_(counter, size), is_first_(cluster_rank() == 0), tells_(counter != nullptr) {}

  __device__ std::uint32_t first_some(const TileSchedule& schedule) {
    const std::uint32_t place = turns_.first();
    return schedule.is_empty(place) ? some_from(place, schedule) : place;
  }
  /// The second block's is not known before some_from.
  __device__ std::uint32_t after(std::uint32_t place) const { return knows() ? turns_.after(place) : place; }
  __device__ std::uint32_t some_from(std::uint32_t place, const TileSchedule& schedule) {
    if (knows()) place = turns_.some_from(place, schedule);
    return tells_ ? told(place) : place;
  }

  /// The first block's is one more: what it tells must arrive.
  __device__ int lead() const { return turns_.lead() + is_first_; }

 private:
  __device__ bool knows() const { return is_first_ || !tells_; }

  /// The first block's place.
  __device__ std::uint32_t told(std::uint32_t place) {
    if (is_first_) {
      wait(memory_.received[slot_], parity_ ^ 1);
      send(memory_.place[slot_], place, memory_.sent[slot_], 1);
    } else {
      expect_bytes(memory_.sent[slot_], sizeof(place));
      wait(memory_.sent[slot_], parity_);
      place = uniform(*static_cast<volatile std::uint32_t*>(&memory_.place[slot_]), own_lane());
      arrive_at(memory_.received[slot_], 0);
    }
    if (++slot_ == PairMemory::slots) slot_ = 0, parity_ ^= 1;
    return place;
  }

  PairMemory& memory_;
  const TileTurns<FixedOrder::round_robin, blocks_of_a_pair> turns_;
  const bool is_first_, tells_;
  int slot_ = 0;
  std::uint32_t parity_ = 0;
};

/// The other block, for a loader of stages that both blocks fill. For each of them: tell it when this block's
/// stage is empty and knows what bytes to expect; wait for it before this block's half is loaded into both.
class OtherBlock {
 public:
  __device__ explicit OtherBlock(PairMemory& memory) : memory_(memory), rank_(cluster_rank() ^ 1) {}

  __device__ void tell(int stage) const { arrive_at(memory_.other_ready[stage], rank_); }
  __device__ void wait(int stage) {
    sm90::wait(memory_.other_ready[stage], parities_ >> stage & 1);
    parities_ ^= 1u << stage;
  }

 private:
  PairMemory& memory_;
  const std::uint32_t rank_;
  std::uint32_t parities_ = 0;  // bit i: of stage i's next wait
};

/// In its place where a block works alone, and no stage is filled by both.
struct NoOtherBlock {
  __device__ void tell(int) const {}
  __device__ void wait(int) const {}
};

}  // namespace dropless::sm90
