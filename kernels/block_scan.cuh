// Inclusive prefix sums over a warp and over a thread block of any whole number of warps.
#pragma once

namespace dropless {

constexpr unsigned full_warp = 0xffffffffu;

template <class T>
__device__ T warp_inclusive_scan(T value) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T below = __shfl_up_sync(full_warp, value, distance);
    if (lane >= distance) value += below;
  }
  return value;
}

template <class T>
struct BlockScan {
  T inclusive;  ///< sum over this thread and those before it
  T total;      ///< sum over the block
};

/// Every thread of a one-dimensional block must call it. `warp_totals` is shared memory for 32 values; it may
/// be used again at once.
template <class T>
__device__ BlockScan<T> block_inclusive_scan(T value, T* warp_totals) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const T inclusive = warp_inclusive_scan(value);
  if (lane == 31) warp_totals[warp] = inclusive;
  __syncthreads();
  const T totals = warp_inclusive_scan(lane < warps ? warp_totals[lane] : T{});
  const T before = __shfl_sync(full_warp, totals, warp == 0 ? 0 : warp - 1);
  const T total = __shfl_sync(full_warp, totals, 31);
  __syncthreads();
  return {warp == 0 ? inclusive : before + inclusive, total};
}

}  // namespace dropless
