// How the permutation kernels cut a row: into chunks (16 bytes where operands allow it, else one element),
// and into segments of chunks, which one thread block moves, a chunk a thread.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>

#include "dropless/integer_math.hpp"
#include "dropless/row_order.hpp"
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
  struct Array {
    Element element[count];
  };

  __device__ explicit ChunkElements(const Chunk& chunk) {
    const Array array = std::bit_cast<Array>(chunk);
#pragma unroll
    for (int i = 0; i < count; ++i) value[i] = to_float(array.element[i]);
  }
  __device__ static Chunk pack(const float (&values)[count]) {
    if constexpr (sizeof(Element) == 2 && count % 2 == 0) {
      struct {
        unsigned pair[count / 2];
      } pairs;
#pragma unroll
      for (int i = 0; i < count / 2; ++i)
        pairs.pair[i] = pair_from_floats<Element>(values[2 * i], values[2 * i + 1]);
      return std::bit_cast<Chunk>(pairs);
    } else {
      Array array;
#pragma unroll
      for (int i = 0; i < count; ++i) array.element[i] = from_float<Element>(values[i]);
      return std::bit_cast<Chunk>(array);
    }
  }
  float value[count];
};

/// The rows of `slots` consecutive slots of a token; -1 past its last. Neighbouring threads ask for the same
/// ones, so each access is a broadcast.
template <int slots>
struct SlotRows {
  std::int32_t row[slots];

  __device__ SlotRows(const RowOrder& order, std::int64_t token, int first_slot) {
    const int left = static_cast<int>(order.top_k) - first_slot;
    const std::int32_t* const first = order.assignment_to_row + token * order.top_k + first_slot;
#pragma unroll
    for (int slot = 0; slot < slots; ++slot) row[slot] = slot < left ? first[slot] : -1;
  }
};

/// Thread blocks over [tokens, width chunks]: x is the segment and y the token, in steps of gridDim.y *
/// blockDim.y. Narrow rows share a block: a launch of one for each would take longer than to move them.
struct SegmentGrid {
  SegmentGrid(std::int64_t tokens, unsigned width, std::int64_t most_threads) {
    constexpr std::int64_t most_grid_y = 65535, shared_threads = 384;
    // As few segments as the block allows, of equal widths.
    const std::int64_t segments = ceil_div(std::int64_t{width}, most_threads);
    const std::int64_t threads = round_up(ceil_div(std::int64_t{width}, segments), std::int64_t{32});
    const std::int64_t tokens_at_once =
        std::max<std::int64_t>(std::min(most_threads, shared_threads) / threads, 1);
    block = dim3(static_cast<unsigned>(threads), static_cast<unsigned>(tokens_at_once));
    grid = dim3(static_cast<unsigned>(segments),
                static_cast<unsigned>(std::min(ceil_div(tokens, tokens_at_once), most_grid_y)));
  }
  __device__ static std::int64_t first_token() { return std::int64_t{blockIdx.y} * blockDim.y + threadIdx.y; }
  __device__ static std::int64_t token_step() { return std::int64_t{gridDim.y} * blockDim.y; }
  dim3 grid, block;
};

}  // namespace dropless
