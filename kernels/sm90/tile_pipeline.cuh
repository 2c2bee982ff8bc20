// What the Hopper kernels share: a ring of shared-memory stages that one producer thread fills by TMA and two
// consumer warpgroups empty by wgmma, and the staging area from which finished tiles are stored.
//
// A tile of the output is up to 256 (M) x 128 (N): four subtiles of 64 along M. Warpgroup w computes subtiles
// w and w + 2, so that a tile cut short at 128 still keeps both warpgroups busy.
#pragma once
#include "sm90/wgmma.cuh"

namespace dropless::sm90 {

constexpr int stages = 3;
constexpr int tile_m = 256, tile_n = 128;
constexpr int subtiles = tile_m / 64;
constexpr int consumer_warpgroups = 2, subtiles_per_warpgroup = subtiles / consumer_warpgroups;
constexpr int threads_per_block = 128 * (consumer_warpgroups + 1);
constexpr int b_bytes = tile_n * k_block * 2;

struct TileMemory {
  alignas(1024) char a[stages][subtiles][subtile_bytes];
  alignas(1024) char b[stages][b_bytes];
  alignas(1024) char staging[tile_n / 64][subtiles][subtile_bytes];
  std::uint64_t full[stages], empty[stages];
  std::uint64_t previous_output[consumer_warpgroups];
};
constexpr std::uint32_t tile_memory_bytes = sizeof(TileMemory);

/// A place in the ring. A consumer waits for `parity` of a full barrier; the producer, a lap ahead, waits for
/// the other parity of an empty barrier.
struct RingPosition {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++stage == stages) stage = 0, parity ^= 1;
  }
};

__device__ inline TileMemory& tile_memory() {
  extern __shared__ __align__(1024) char shared_bytes[];
  return *reinterpret_cast<TileMemory*>(shared_bytes);
}

__device__ inline void initialise_barriers(TileMemory& memory) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], consumer_warpgroups * 4);  // one arrival for each warp
    }
    for (std::uint64_t& barrier : memory.previous_output) ptx::mbarrier_init(&barrier, 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
}

/// Every warp arrives for itself: a warpgroup without work in a tile has no wgmma to keep its warps in step.
__device__ inline void release_stage(TileMemory& memory, int stage) {
  if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.empty[stage]);
}

/// Accumulates the first `steps` slices of 16 of the next stage into the first `active` of this warpgroup's
/// subtiles.
template <class Element, int n, int active, int steps, bool a_mn_major, bool b_mn_major>
__device__ __forceinline__ void multiply_stage(TileMemory& memory, RingPosition& ring, int warpgroup,
                                               bool first, float (&d)[subtiles_per_warpgroup][64]) {
  constexpr std::uint64_t a_next = consumer_warpgroups * subtile_bytes / 16;
  wait(memory.full[ring.stage], ring.parity);
  const std::uint64_t a = operand_descriptor<a_mn_major>(memory.a[ring.stage][warpgroup]);
  const std::uint64_t b = operand_descriptor<b_mn_major>(memory.b[ring.stage]);
  wgmma_fence();
#pragma unroll
  for (int i = 0; i < steps; ++i)
#pragma unroll
    for (int subtile = 0; subtile < active; ++subtile)
      wgmma<Element, n, a_mn_major, b_mn_major>(d[subtile],
                                                a + subtile * a_next + i * descriptor_k16<a_mn_major>,
                                                b + i * descriptor_k16<b_mn_major>, !(first && i == 0));
  wgmma_commit();
  wgmma_wait<0>();
  release_stage(memory, ring.stage);
  ring.advance();
}

/// Accumulates `k` elements. A last stage that k does not fill is multiplied as far as its last slice of 16.
template <class Element, int n, int active, bool a_mn_major, bool b_mn_major>
__device__ __forceinline__ void multiply_stages(TileMemory& memory, RingPosition& ring, int warpgroup, int k,
                                                float (&d)[subtiles_per_warpgroup][64]) {
  constexpr int steps = k_block / 16;
  const int slices = (k + 15) / 16, whole = slices / steps;
  for (int block = 0; block < whole; ++block)
    multiply_stage<Element, n, active, steps, a_mn_major, b_mn_major>(memory, ring, warpgroup, block == 0, d);
  switch (slices % steps) {
    case 1:
      multiply_stage<Element, n, active, 1, a_mn_major, b_mn_major>(memory, ring, warpgroup, whole == 0, d);
      break;
    case 2:
      multiply_stage<Element, n, active, 2, a_mn_major, b_mn_major>(memory, ring, warpgroup, whole == 0, d);
      break;
    case 3:
      multiply_stage<Element, n, active, 3, a_mn_major, b_mn_major>(memory, ring, warpgroup, whole == 0, d);
      break;
    default:
      break;
  }
}

/// Passes `k_blocks` stages without work.
__device__ inline void skip_stages(TileMemory& memory, RingPosition& ring, int k_blocks) {
  for (int block = 0; block < k_blocks; ++block) {
    wait(memory.full[ring.stage], ring.parity);
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

/// Rounds the 64 x 64 part of d that starts at column 64 * half into a staging piece of 64 rows of 128
/// swizzled bytes. transpose: the piece's rows are d's columns. add: adds what the piece holds first, in
/// float.
template <class Element, bool transpose>
__device__ __forceinline__ void stage_piece(char* piece, const float (&d)[64], int half, bool add) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int j = 0; j < 4; ++j) {  // 16 columns of d: four 8 x 8 matrices
    const int row = transpose ? j * 16 + lane / 16 * 8 + lane % 8 : warp * 16 + lane % 16;
    const int chunk = transpose ? warp * 2 + lane / 8 % 2 : j * 2 + lane / 16;
    const std::uint32_t address = shared_address(piece) + row * 128 + ((chunk ^ (row & 7)) * 16);
    float values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] = d[half * 32 + j * 8 + i];
    std::uint32_t packed[4];
    if (add) {
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

}  // namespace dropless::sm90
