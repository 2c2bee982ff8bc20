// A warp as expert_tile_search.hpp takes it: what its 32 lanes do together. A value of every lane is a
// variable of each thread.
#pragma once
#include <cstdint>

namespace dropless {

struct DeviceWarp {
  static constexpr std::int32_t lanes = 32;

  template <class Value>
  __device__ __forceinline__ static auto for_each_lane(Value value) {
    return value(lane());
  }
  template <class Value>
  __device__ __forceinline__ static Value own(Value values, std::int32_t) {
    return values;
  }
  template <class Value>
  __device__ __forceinline__ static Value at(Value values, std::int32_t lane) {
    return __shfl_sync(all_lanes, values, lane);
  }
  __device__ __forceinline__ static std::uint32_t total(std::uint32_t values) {
    return __reduce_add_sync(all_lanes, values);
  }
  __device__ __forceinline__ static std::uint32_t inclusive_sum(std::uint32_t values) {
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2) {
      const std::uint32_t below = __shfl_up_sync(all_lanes, values, distance);
      if (lane() >= distance) values += below;
    }
    return values;
  }
  __device__ __forceinline__ static std::int32_t first_above(std::uint32_t values, std::uint32_t bound) {
    return __ffs(static_cast<int>(__ballot_sync(all_lanes, values > bound))) - 1;
  }

 private:
  static constexpr unsigned all_lanes = 0xffffffffu;
  __device__ __forceinline__ static std::int32_t lane() {
    return static_cast<std::int32_t>(threadIdx.x) % lanes;
  }
};

}  // namespace dropless
