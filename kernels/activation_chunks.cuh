// The activation on chunks of 16-bit elements: what the steps of the composed layer and the fused product
// have in common, so that both give the same bits.
#pragma once
#include "activation.cuh"
#include "row_segments.cuh"

namespace dropless {

/// h of a chunk of p: of gate and up for glu, else of `gate` alone.
template <bool glu, class Element, class Chunk, class Function>
__device__ __forceinline__ Chunk activate_chunk(const GluRule& rule, Function function, const Chunk& gate,
                                                const Chunk& up) {
  using Elements = ChunkElements<Element, Chunk>;
  Elements value(gate);
  if constexpr (glu) {
    const Elements up_value(up);
#pragma unroll
    for (int i = 0; i < Elements::count; ++i)
      value.value[i] = rule(function, value.value[i], up_value.value[i]);
  } else {
#pragma unroll
    for (int i = 0; i < Elements::count; ++i) value.value[i] = function(value.value[i]);
  }
  return Elements::pack(value.value);
}

/// scale * product + bias, rounded as p is kept.
template <class Element, class Chunk>
__device__ __forceinline__ Chunk pre_activate_chunk(float scale, const Chunk& product, const Chunk& bias) {
  using Elements = ChunkElements<Element, Chunk>;
  Elements p(product);
  const Elements b(bias);
#pragma unroll
  for (int i = 0; i < Elements::count; ++i) p.value[i] = fmaf(scale, p.value[i], b.value[i]);
  return Elements::pack(p.value);
}

}  // namespace dropless
