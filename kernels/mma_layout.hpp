// Where things lie in a tensor-core tile: plain index functions, so that the CPU can test every one of them.
//
// An operand is a matrix over (d, k): d is m for the left operand and n for the right one. One stage of it (D
// values of d by K values of k) is kept in shared memory the way it lies in global memory, as rows of
// contiguous elements: with `k_inner` a row holds K values of k and there are D rows, else a row holds D
// values of d and there are K rows. ldmatrix reads the first kind and ldmatrix.trans the second, so no
// operand is ever transposed by a copy. The unit of movement is a chunk: 16 bytes, 8 elements of a 16-bit
// type.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

inline constexpr int chunk_elements = 8;

/// Whether rows of a 16-bit matrix can be moved by chunks: base and pitch are multiples of 16 bytes.
inline bool moves_by_chunks(const void* base, std::int64_t leading_dimension) {
  return reinterpret_cast<std::uintptr_t>(base) % 16 == 0 && leading_dimension % chunk_elements == 0;
}

/// The shared-memory slot (in chunks) of chunk `chunk` of row `row`. Chunks of neighbouring rows are permuted
/// so that any 8 consecutive rows of one chunk column fall into the 8 distinct 16-byte bank groups.
/// chunks_per_row is a power of two.
DROPLESS_HOST_DEVICE constexpr int swizzled_slot(int row, int chunk, int chunks_per_row) {
  const int turn = chunks_per_row >= 8 ? row % 8 : row * chunks_per_row / 8 % chunks_per_row;
  return row * chunks_per_row + (chunk ^ turn);
}

/// The layout of one stage of an operand in shared memory; D and K are powers of two, at least 8.
template <int D, int K>
struct OperandStage {
  static constexpr int chunks = D * K / chunk_elements;
  bool k_inner;

  DROPLESS_HOST_DEVICE constexpr int row_of(int index) const {
    return k_inner ? index / (K / chunk_elements) : index / (D / chunk_elements);
  }
  DROPLESS_HOST_DEVICE constexpr int chunk_of(int index) const {
    return k_inner ? index % (K / chunk_elements) : index % (D / chunk_elements);
  }
  DROPLESS_HOST_DEVICE constexpr int slot(int row, int chunk) const {
    return k_inner ? swizzled_slot(row, chunk, K / chunk_elements)
                   : swizzled_slot(row, chunk, D / chunk_elements);
  }
  /// Index of the 16-bit element (d, k) from the start of the stage.
  DROPLESS_HOST_DEVICE constexpr int element(int d, int k) const {
    const int row = k_inner ? d : k, inner = k_inner ? k : d;
    return slot(row, inner / chunk_elements) * chunk_elements + inner % chunk_elements;
  }
};

/// A place in a 16 x 16 piece of a stage: 16 rows of two chunks.
struct PieceChunk {
  int row;
  int chunk;
};

/// The chunk that `lane` points ldmatrix.x4 at, so that the four registers come out in the order in which
/// mma.m16n8k16 takes them. Left: a0..a3 = (m low, k low), (m high, k low), (m low, k high), (m high, k
/// high). Right: two n8 fragments = (n low, k low), (n low, k high), (n high, k low), (n high, k high).
DROPLESS_HOST_DEVICE constexpr PieceChunk ldmatrix_source(int lane, bool left, bool k_inner) {
  const int within = lane % 8, odd = lane / 8 % 2, high = lane / 16;
  return left == k_inner ? PieceChunk{within + 8 * odd, high} : PieceChunk{within + 8 * high, odd};
}

/// The slot that `lane` points ldmatrix.x4 at for the 16 x 16 piece whose first d is `first` and first k
/// zero.
template <int D, int K>
DROPLESS_HOST_DEVICE constexpr int first_piece_slot(OperandStage<D, K> layout, int lane, bool left,
                                                    int first) {
  const PieceChunk source = ldmatrix_source(lane, left, layout.k_inner);
  return layout.k_inner ? layout.slot(first + source.row, source.chunk)
                        : layout.slot(source.row, first / chunk_elements + source.chunk);
}

/// The same for the `half`-th 16 values of k and d from piece * step further on, from the slot above: what
/// differs is either added or (where it meets the swizzle) exclusive-ored. Needs 32 values of k a stage, and
/// with d inside pieces that share no bit of their chunk numbers: first / 8 % step == 0 apart from its low
/// bits, as for (16 w, 32) and (64 w, 16).
template <int D, int K>
DROPLESS_HOST_DEVICE constexpr int piece_slot(OperandStage<D, K> layout, int first_slot, int step, int piece,
                                              int half) {
  static_assert(K == 32);
  return layout.k_inner ? (first_slot ^ (2 * half)) + piece * step * (K / chunk_elements)
                        : (first_slot ^ (piece * step / chunk_elements)) + half * 16 * (D / chunk_elements);
}

/// The element of the 16 x 8 result that accumulator i (0..3) of `lane` holds.
DROPLESS_HOST_DEVICE constexpr int accumulator_row(int lane, int i) { return lane / 4 + 8 * (i / 2); }
DROPLESS_HOST_DEVICE constexpr int accumulator_column(int lane, int i) { return lane % 4 * 2 + i % 2; }

}  // namespace dropless
