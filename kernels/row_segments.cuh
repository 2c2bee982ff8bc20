// How the permutation kernels cut a row: into chunks (16 bytes where operands allow it, else one element),
// and 32 * n consecutive chunks into a segment, which one warp moves with n independent accesses a lane.
#pragma once
#include <cstdint>

#include "element_conversion.cuh"

namespace dropless {

/// The register type of a chunk of `bytes` bytes.
template <int bytes>
struct ChunkType;
template <>
struct ChunkType<16> {
  using type = uint4;
};
template <>
struct ChunkType<4> {
  using type = unsigned int;
};
template <>
struct ChunkType<2> {
  using type = unsigned short;
};

/// A row matrix in units of chunks.
template <class Chunk>
struct ChunkRows {
  Chunk* data;
  std::int64_t pitch;  ///< chunks from one row to the next
  __device__ Chunk* row(std::int64_t index) const { return data + index * pitch; }
};

/// A chunk's elements as floats, and back.
template <class Element, class Chunk>
struct ChunkElements {
  static constexpr int count = sizeof(Chunk) / sizeof(Element);

  __device__ explicit ChunkElements(const Chunk& chunk) {
    Element elements[count];
    memcpy(elements, &chunk, sizeof chunk);
#pragma unroll
    for (int i = 0; i < count; ++i) value[i] = to_float(elements[i]);
  }
  __device__ static Chunk pack(const float (&values)[count]) {
    Element elements[count];
#pragma unroll
    for (int i = 0; i < count; ++i) elements[i] = from_float<Element>(values[i]);
    Chunk chunk;
    memcpy(&chunk, elements, sizeof chunk);
    return chunk;
  }
  float value[count];
};

}  // namespace dropless
