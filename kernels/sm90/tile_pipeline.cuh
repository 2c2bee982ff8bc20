// What the Hopper kernels share: a ring of shared-memory stages that one loader thread fills by TMA and two
// consumer warpgroups empty by wgmma, and the staging area through which finished tiles leave: consumers
// write it, and a store thread for each of them issues the TMA stores, so that no consumer spends time on
// them.
//
// A tile of the output is up to 256 (M) x n (N) or 128 x n: four or two subtiles of 64 along M. Warpgroup w
// computes subtile w, and of four w + 2 too, so that a tile cut short at 128 still keeps both warpgroups
// busy.
#pragma once
#include "dropless/row_tiles.hpp"
#include "sm90/wgmma.cuh"

namespace dropless::sm90 {

constexpr int stages = 3;
constexpr int consumer_warpgroups = 2;
constexpr int threads_per_block = 128 * (consumer_warpgroups + 1);

/// Shared memory of a block whose tiles are up to 64 * subtile_count by n. A warpgroup has `slot_count` slots
/// of staging: it writes one while others are stored.
template <int n, int subtile_count, int slot_count>
struct TileMemory {
  static constexpr int tile_n = n, b_bytes = n * k_block * 2;
  static constexpr int subtiles = subtile_count, tile_m = 64 * subtiles;
  static constexpr int subtiles_per_warpgroup = subtiles / consumer_warpgroups;
  static constexpr int staging_slots = slot_count;
  alignas(1024) char a[stages][subtiles][subtile_bytes];
  alignas(1024) char b[stages][b_bytes];
  alignas(1024) char output[consumer_warpgroups][staging_slots][subtiles_per_warpgroup][subtile_bytes];
  std::uint64_t full[stages], empty[stages];
  // Of each slot: it may be written (and holds the old output where that is added to); it is written.
  std::uint64_t ready[consumer_warpgroups][staging_slots], staged[consumer_warpgroups][staging_slots];
};

/// A place in the ring. A consumer waits for `parity` of a full barrier; the producer, a lap ahead, waits for
/// the other parity of an empty barrier.
struct RingPosition {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

/// Where the B operand of a stage lies: in the stage itself.
struct OwnB {
  __device__ int stage(const RingPosition& ring) const { return ring.stage; }
  __device__ void advance() const {}
};

template <class Memory>
__device__ Memory& tile_memory() {
  extern __shared__ __align__(1024) char shared_bytes[];
  return *reinterpret_cast<Memory*>(shared_bytes);
}

/// fills: arrivals that make a stage full, beside the bytes it expects.
template <class Memory>
__device__ void initialise_barriers(Memory& memory, int fills = 1) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], fills);
      ptx::mbarrier_init(&memory.empty[stage], consumer_warpgroups * 4);  // one arrival for each warp
    }
    for (int warpgroup = 0; warpgroup < consumer_warpgroups; ++warpgroup)
      for (int slot = 0; slot < Memory::staging_slots; ++slot) {
        ptx::mbarrier_init(&memory.ready[warpgroup][slot], 1);
        ptx::mbarrier_init(&memory.staged[warpgroup][slot], 4);  // one arrival for each warp
      }
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
}

/// Every warp arrives for itself: a warpgroup without work in a tile has no wgmma to keep its warps in step.
template <class Memory>
__device__ void release_stage(Memory& memory, int stage) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.empty[stage]);
}

/// Accumulators of a tile without products. By a branch: left to itself the compiler selects between zero and
/// the old value for each register of every tile.
template <int most, int size>
__device__ __forceinline__ void clear(float (&d)[most][size]) {
  asm volatile("");
#pragma unroll
  for (auto& subtile : d)
#pragma unroll
    for (float& value : subtile) value = 0;
}

/// What a warpgroup does while its last products are under way, where there is nothing to do.
struct NothingMeanwhile {
  __device__ void operator()() const {}
};

/// Accumulates the first `steps` slices of 16 of the next stage into the first `active` of this warpgroup's
/// subtiles. Calls `meanwhile` under the products of the last stage.
template <class Element, int n, int active, int steps, bool a_mn_major, bool b_mn_major, class Memory,
          int most, int size, class Meanwhile, class PlaceOfB>
__device__ __forceinline__ void multiply_stage(Memory& memory, RingPosition& ring, int warpgroup, bool first,
                                               bool last, float (&d)[most][size], const Meanwhile& meanwhile,
                                               PlaceOfB& place_of_b) {
  constexpr std::uint64_t a_next = consumer_warpgroups * subtile_bytes / 16;
  wait(memory.full[ring.stage], ring.parity);
  const std::uint64_t a = operand_descriptor<a_mn_major>(memory.a[ring.stage][warpgroup]);
  const std::uint64_t b = operand_descriptor<b_mn_major>(memory.b[place_of_b.stage(ring)]);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < steps; ++i)
#pragma unroll
    for (int subtile = 0; subtile < active; ++subtile)
      wgmma<Element, n, a_mn_major, b_mn_major>(d[subtile],
                                                a + subtile * a_next + i * descriptor_k16<a_mn_major>,
                                                b + i * descriptor_k16<b_mn_major>, !(first && i == 0));
  wgmma_commit();
  if (last) meanwhile();
  wgmma_wait<0>();
  release_stage(memory, ring.stage);
  ring.advance();
  place_of_b.advance();
}

/// Accumulates `blocks` whole stages, then `last_steps` slices of one more (0: there is none). Calls
/// `meanwhile` once: under the last products, or where there are none, at once.
template <class Element, int n, int active, bool a_mn_major, bool b_mn_major, class Memory, int most,
          int size, class Meanwhile = NothingMeanwhile, class PlaceOfB = OwnB>
__device__ __forceinline__ void multiply_stages(Memory& memory, RingPosition& ring, int warpgroup, int blocks,
                                                int last_steps, float (&d)[most][size],
                                                const Meanwhile& meanwhile = {}, PlaceOfB place_of_b = {}) {
  for (int block = 0; block < blocks; ++block)
    multiply_stage<Element, n, active, k_block / 16, a_mn_major, b_mn_major>(
        memory, ring, warpgroup, block == 0, last_steps == 0 && block == blocks - 1, d, meanwhile,
        place_of_b);
  const bool first = blocks == 0;
  switch (last_steps) {
    case 1:
      multiply_stage<Element, n, active, 1, a_mn_major, b_mn_major>(memory, ring, warpgroup, first, true, d,
                                                                    meanwhile, place_of_b);
      break;
    case 2:
      multiply_stage<Element, n, active, 2, a_mn_major, b_mn_major>(memory, ring, warpgroup, first, true, d,
                                                                    meanwhile, place_of_b);
      break;
    case 3:
      multiply_stage<Element, n, active, 3, a_mn_major, b_mn_major>(memory, ring, warpgroup, first, true, d,
                                                                    meanwhile, place_of_b);
      break;
    default:
      if (first) meanwhile();
      break;
  }
}

/// Passes `blocks` stages without work.
template <class Memory>
__device__ void skip_stages(Memory& memory, RingPosition& ring, int blocks) {
  for (int block = 0; block < blocks; ++block) {
    wait(memory.full[ring.stage], ring.parity);
    __syncwarp();  // one lane releases the stage for all of them
    release_stage(memory, ring.stage);
    ring.advance();
  }
}

/// Two floats as two 16-bit elements, the first in the low half.
template <class Element>
__device__ inline std::uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    return reinterpret_cast<const std::uint32_t&>(pair);
  }
}
template <class Element>
__device__ inline float2 unpack(std::uint32_t pair) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    return __bfloat1622float2(reinterpret_cast<const __nv_bfloat162&>(pair));
  else
    return __half22float2(reinterpret_cast<const __half2&>(pair));
}

/// Rounds the 64 x 64 part of d that starts at column 64 * part into a piece of 64 rows of 128 swizzled
/// bytes. transpose: the piece's rows are d's columns. add: adds what the piece holds first, in float; known
/// to the compiler, since a branch at each store would keep it from running ahead of them. eight_rows: bytes
/// from eight of its rows, which lie together, to the next eight.
template <class Element, bool transpose, bool add, int eight_rows = 8 * 128, int size>
__device__ __forceinline__ void write_piece(char* piece, const float (&d)[size], int part) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 4; ++j) {  // 16 columns of d: four 8 x 8 matrices
    if (part * 32 + j * 8 >= size) break;
    const int row = transpose ? j * 16 + lane / 16 * 8 + lane % 8 : warp * 16 + lane % 16;
    const int chunk = transpose ? warp * 2 + lane / 8 % 2 : j * 2 + lane / 16;
    const int row_bytes = eight_rows == 8 * 128 ? row * 128 : row / 8 * eight_rows + row % 8 * 128;
    const std::uint32_t address = shared_address(piece) + row_bytes + ((chunk ^ (row & 7)) * 16);
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = d[part * 32 + j * 8 + i];
    std::uint32_t packed[4];
    if constexpr (add) {
      load_matrices<transpose>(address, packed);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 previous = unpack<Element>(packed[i]);
        values[2 * i] += previous.x;
        values[2 * i + 1] += previous.y;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) packed[i] = pack<Element>(values[2 * i], values[2 * i + 1]);
    store_matrices<transpose>(address, packed);
  }
}

/// Which warp of the block does what: warps of the consumer warpgroups first, then one loader warp, then one
/// store warp for each consumer warpgroup. The one thread that works in each of the latter is its first.
constexpr int loader_warp = 4 * consumer_warpgroups, first_store_warp = loader_warp + 1;

/// Coordinates of a box, as the TMA calls take them.
template <int rank>
struct BoxCoordinates {
  std::int32_t values[rank];
};

/// Counts the parts (64 columns of one warpgroup's subtiles) that pass through the staging area; consumer and
/// store thread count alike. Slots take turns.
template <int slots>
struct StagingStep {
  std::uint32_t count = 0;
  __device__ int slot() const { return static_cast<int>(count % slots); }
  __device__ std::uint32_t parity() const { return count / slots % 2; }
};

/// The consumer's end of the staging area. One object for all tiles of a warpgroup.
template <class Element, bool transpose, class Memory>
class TileWriter {
 public:
  __device__ TileWriter(Memory& memory, int warpgroup) : memory_(memory), warpgroup_(warpgroup) {}

  template <int size>
  __device__ __forceinline__ void write(const float (&d)[Memory::subtiles_per_warpgroup][size], int active,
                                        int parts, bool add) {
#pragma unroll
    for (int part = 0; part < (size + 31) / 32; ++part) {
      if (part >= parts) break;
      write_part(d, active, part, add);
    }
  }

  template <int size>
  __device__ __forceinline__ void write_part(const float (&d)[Memory::subtiles_per_warpgroup][size],
                                             int active, int part, bool add) {
    const int slot = step_.slot();
    wait(memory_.ready[warpgroup_][slot], step_.parity());
    if (add)
      write_pieces<true>(d, active, part, slot);
    else
      write_pieces<false>(d, active, part, slot);
    ptx::fence_proxy_async(ptx::space_shared);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory_.staged[warpgroup_][slot]);
    ++step_.count;
  }

 private:
  template <bool add, int size>
  __device__ __forceinline__ void write_pieces(const float (&d)[Memory::subtiles_per_warpgroup][size],
                                               int active, int part, int slot) {
#pragma unroll
    for (int subtile = 0; subtile < Memory::subtiles_per_warpgroup; ++subtile)
      if (subtile < active)
        write_piece<Element, transpose, add>(memory_.output[warpgroup_][slot][subtile], d[subtile], part);
  }

  Memory& memory_;
  const int warpgroup_;
  StagingStep<Memory::staging_slots> step_;
};

/// The store thread's end: stores a warpgroup's parts in the order in which the consumer writes them.
/// `at(subtile, part)` gives a piece's coordinates in the output's map. once: the output should leave L2 soon
/// (of rows, whose boxes have four coordinates).
template <class Memory>
class TileStorer {
  static constexpr int slots = Memory::staging_slots;

 public:
  __device__ TileStorer(Memory& memory, int warpgroup, bool add, bool once = false)
      : memory_(memory), warpgroup_(warpgroup), add_(add), once_(once) {
    if (!add_) ptx::mbarrier_arrive(&memory_.ready[warpgroup_][0]);
  }

  template <class At>
  __device__ void store(const CUtensorMap* map, int active, int parts, const At& at) {
    for (int part = 0; part < parts; ++part)
      store_part(map, active, [&](int subtile) { return at(subtile, part); });
  }

  /// Waits until everything is written.
  __device__ void finish() { ptx::cp_async_bulk_wait_group(ptx::n32_t<0>()); }

 private:
  template <class At>
  __device__ void store_part(const CUtensorMap* map, int active, const At& at) {
    const int slot = step_.slot();
    auto& pieces = memory_.output[warpgroup_][slot];
    // What a store may still read is the last slots - 2: neither this part's slot nor the one after it.
    ptx::cp_async_bulk_wait_group_read(ptx::n32_t<slots - 2>());
    if (add_) {
      std::uint64_t& ready = memory_.ready[warpgroup_][slot];
      expect_bytes(ready, active * subtile_bytes);
      for (int subtile = 0; subtile < active; ++subtile)
        load_box(pieces[subtile], map, at(subtile).values, ready);
    } else {
      ptx::mbarrier_arrive(&memory_.ready[warpgroup_][(slot + 1) % slots]);  // for the part after this one
    }
    wait(memory_.staged[warpgroup_][slot], step_.parity());
    for (int subtile = 0; subtile < active; ++subtile) store_piece(map, at(subtile), pieces[subtile]);
    ptx::cp_async_bulk_commit_group();
    ++step_.count;
  }

  template <int rank>
  __device__ void store_piece(const CUtensorMap* map, const BoxCoordinates<rank>& at,
                              const void* piece) const {
    if constexpr (rank == 4)
      if (once_) return store_box_once(map, at.values, piece);
    store_box(map, at.values, piece);
  }

  Memory& memory_;
  const int warpgroup_;
  const bool add_, once_;
  StagingStep<slots> step_;
};

}  // namespace dropless::sm90
