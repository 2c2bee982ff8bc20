// The tensor map through which a kernel reaches one expert's matrix: one map over the stack of all of them,
// or the expert's own map in device memory where the matrices are separate tensors.
#pragma once
#include "dropless/expert_products.hpp"
#include "sm90/ptx.cuh"
#include "sm90/tensor_map.hpp"

namespace dropless::sm90 {

/// A map and the number of the expert's matrix within it.
struct ExpertMap {
  const CUtensorMap* map;
  std::int32_t matrix;
};

/// `separate`: the first expert's own map, or null. The thread that gets the map is the one that may use it:
/// maps in device memory were written by other means than TMA's own, and its view of them must be renewed.
__device__ inline ExpertMap expert_map(const CUtensorMap& stack, const CUtensorMap* separate,
                                       std::int32_t expert) {
  if (separate == nullptr) return {&stack, expert};
  const CUtensorMap* const map = separate + maps_of_a_matrix * expert;
  ptx::fence_proxy_tensormap_generic(ptx::sem_acquire, ptx::scope_sys, map,
                                     ptx::n32_t<sizeof(CUtensorMap)>());
  return {map, 0};
}

/// The first expert's own map of the kind, of weights or gradients; null where these are one allocation.
template <class Tensor>
const CUtensorMap* separate_maps(const Tensor& tensor, int kind) {
  return tensor.matrices == nullptr ? nullptr : static_cast<const CUtensorMap*>(tensor.maps.maps) + kind;
}

}  // namespace dropless::sm90
