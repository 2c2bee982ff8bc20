// Writing accumulators to global memory: 16-bit results are exchanged among the four lanes that share a row
// so that every lane writes 16 consecutive bytes; float results, accumulation and unaligned outputs go
// element by element.
#pragma once
#include "dropless/element_type.hpp"
#include "mma_tile.cuh"

namespace dropless {

/// 4 x 4 transpose among each four neighbouring lanes: afterwards lane q of the four holds what the others
/// had at index q, in lane order.
__device__ __forceinline__ void transpose_among_four(std::uint32_t (&values)[4], int lane) {
#pragma unroll
  for (int distance = 1; distance <= 2; distance *= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = distance == 1 ? 2 * pair : pair, high = low + distance;
      const std::uint32_t received =
          __shfl_xor_sync(0xffffffffu, upper ? values[low] : values[high], distance);
      if (upper)
        values[low] = received;
      else
        values[high] = received;
    }
  }
}

/// Writes what one warp holds of a tile, 64 columns.
class AccumulatorStore {
 public:
  /// `out`: the element at the warp's first row and column, of which `rows` and `columns` exist from there
  /// on.
  __device__ __forceinline__ AccumulatorStore(char* out, std::int64_t leading_dimension, ElementType type,
                                              bool accumulate, int rows, int columns, int lane)
      : row_(out),
        pitch_(leading_dimension * element_bytes(type)),
        rows_left_(rows),
        columns_left_(columns),
        lane_(lane),
        float_out_(type == ElementType::fp32),
        accumulate_(accumulate),
        by_chunks_(!float_out_ && !accumulate && pitch_ % sizeof(uint4) == 0 &&
                   reinterpret_cast<std::uintptr_t>(out) % sizeof(uint4) == 0 &&
                   (columns >= 64 || columns % chunk_elements == 0)) {
    move_down(accumulator_row(lane, 0));
  }

  /// Stores pieces of 16 rows, each eight 16 x 8 accumulators; each piece lies `step` rows below the one
  /// before.
  template <class Element, int Pieces>
  __device__ __forceinline__ void pieces(const float (&sums)[Pieces][8][4], int step) {
    if (float_out_)
      each_half_piece<Pieces>(step, [&](int i, int half) { elements<float>(sums[i], half); });
    else if (by_chunks_)
      each_half_piece<Pieces>(step, [&](int i, int half) { chunks<Element>(sums[i], half); });
    else
      each_half_piece<Pieces>(step, [&](int i, int half) { elements<Element>(sums[i], half); });
  }

 private:
  template <int Pieces, class Visit>
  __device__ __forceinline__ void each_half_piece(int step, Visit visit) {
#pragma unroll
    for (int i = 0; i < Pieces; ++i) {
      visit(i, 0);
      move_down(8);
      visit(i, 1);
      move_down(step - 8);
    }
  }

  __device__ __forceinline__ void move_down(int rows) {
    row_ += rows * pitch_;
    rows_left_ -= rows;
  }

  template <class Out>
  __device__ __forceinline__ void elements(const float (&sums)[8][4], int half) const {
    if (rows_left_ <= 0) return;
    const int first = accumulator_column(lane_, 0);
    Out* target = reinterpret_cast<Out*>(row_) + first;
    const int left = columns_left_ - first;
#pragma unroll
    for (int j = 0; j < 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * j + i >= left) continue;
        const float sum = sums[j][2 * half + i];
        const float value = accumulate_ ? sum + static_cast<float>(target[8 * j + i]) : sum;
        if constexpr (sizeof(Out) == 4)
          target[8 * j + i] = value;
        else
          target[8 * j + i] = from_float<Out>(value);
      }
  }

  /// Without a branch, so that the exchanges of all chunks overlap.
  template <class Out>
  __device__ __forceinline__ void chunks(const float (&sums)[8][4], int half) const {
#pragma unroll
    for (int first = 0; first < 8; first += 4) {
      std::uint32_t words[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const auto bits = [&](float value) {
          return static_cast<std::uint32_t>(__builtin_bit_cast(std::uint16_t, from_float<Out>(value)));
        };
        words[j] = bits(sums[first + j][2 * half]) | bits(sums[first + j][2 * half + 1]) << 16;
      }
      transpose_among_four(words, lane_);
      const int column = 8 * (first + lane_ % 4);
      if (rows_left_ > 0 && column < columns_left_)
        *reinterpret_cast<uint4*>(reinterpret_cast<Out*>(row_) + column) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
  }

  char* row_;
  std::int64_t pitch_;
  int rows_left_, columns_left_, lane_;
  bool float_out_, accumulate_, by_chunks_;
};

}  // namespace dropless
