// Tensor-core building blocks for compute capability 8.0 and later: filling a stage of an operand from global
// memory, multiplying two stages by one warp, and writing a finished tile. mma_layout.hpp says where every
// element lies; here are only the instructions.
//
// Every output element has one accumulator that takes k in ascending steps of 16, whatever the tile shape, so
// a result's bits do not depend on the tile that computed it.
#pragma once
#include <cstdint>
#include <type_traits>

#include "element_conversion.cuh"
#include "mma_layout.hpp"

namespace dropless {

/// Starts copying `bytes` (0..16) from `source` to the 16 bytes at `destination` in shared memory, if
/// `wanted`; the rest is filled with zeros. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_chunk_async(uint4* destination, const void* source, int bytes,
                                                 bool wanted) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(destination));
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %3, 0;"
      " @wanted cp.async.cg.shared.global [%0], [%1], 16, %2; }" ::"r"(address),
      "l"(source), "r"(bytes), "r"(static_cast<int>(wanted))
      : "memory");
}
/// Starts copying 16 bytes to shared memory at `destination`, if `wanted`. The 128 bytes around the source
/// are fetched into L2, as the copies of the next values of k want them.
__device__ __forceinline__ void copy_whole_chunk_async(std::uint32_t destination, const void* source,
                                                       bool wanted) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0;"
      " @wanted cp.async.cg.shared.global.L2::128B [%0], [%1], 16; }" ::"r"(destination),
      "l"(source), "r"(static_cast<int>(wanted))
      : "memory");
}
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most `Pending` of this thread's committed groups are still under way.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

/// `value` as lane 0 has it, which every lane holds already. It tells the compiler that no branch on it parts
/// a warp; where that is in doubt, every ldmatrix and mma waits for the warp to gather.
__device__ __forceinline__ int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

/// The address of `place` in shared memory. The compiler keeps it, where it would compute a plain conversion
/// again for each use.
__device__ __forceinline__ std::uint32_t shared_address(const void* place) {
  std::uint32_t address;
  asm volatile("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }"
               : "=r"(address)
               : "l"(place));
  return address;
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory; lane i gives the address of row i % 8 of matrix
/// i / 8.
__device__ __forceinline__ void load_matrices(std::uint32_t (&registers)[4], std::uint32_t address,
                                              bool transpose) {
  if (transpose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
                 : "r"(address)
                 : "memory");
}

/// sum += left * right, a 16 x 8 x 16 product by one warp, if `wanted`, which all its lanes agree on. A
/// predicate, not a branch: what stands around it may be moved past it.
template <class Element>
__device__ __forceinline__ void multiply_fragments(float (&sum)[4], const std::uint32_t (&left)[4],
                                                   std::uint32_t right_low, std::uint32_t right_high,
                                                   bool wanted = true) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    asm("{ .reg .pred wanted; setp.ne.b32 wanted, %10, 0;"
        " @wanted mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
        " {%8, %9}, {%0, %1, %2, %3}; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high),
          "r"(static_cast<int>(wanted)));
  else
    asm("{ .reg .pred wanted; setp.ne.b32 wanted, %10, 0;"
        " @wanted mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7},"
        " {%8, %9}, {%0, %1, %2, %3}; }"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_low), "r"(right_high),
          "r"(static_cast<int>(wanted)));
}

/// What lies within a stage: rows of global memory, `leading_dimension` elements apart, of which `rows` and
/// the first `columns` elements exist (either may be zero, negative or beyond the stage). The rest reads as
/// zero and is never written.
template <class Element>
struct StageWindow {
  Element* base;
  std::int64_t leading_dimension;
  int rows;
  int columns;
  bool by_chunks;  ///< moves_by_chunks, and the window starts at a multiple of 16 bytes
};

/// Copies the first `present` (0..8) elements of a chunk and zeros after them, if `wanted`: asynchronously by
/// whole chunks, else element by element.
template <bool ByChunks, class Element>
__device__ __forceinline__ void load_chunk(uint4* slot, const Element* source, int present,
                                           bool wanted = true) {
  if constexpr (ByChunks) {
    copy_chunk_async(slot, source, present * static_cast<int>(sizeof(Element)), wanted);
  } else if (wanted) {
    std::uint32_t words[4] = {};
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      if (i < present)
        words[i / 2] |= static_cast<std::uint32_t>(reinterpret_cast<const std::uint16_t*>(source)[i])
                        << (16 * (i % 2));
    *slot = make_uint4(words[0], words[1], words[2], words[3]);
  }
}

/// Fills a stage by `Threads` threads, of which this is number `thread`. The copies are asynchronous where
/// the window moves by chunks and plain otherwise; in both cases commit, wait and a barrier make them
/// visible.
template <int Threads, int D, int K, class Element>
__device__ __forceinline__ void load_stage(uint4* stage, OperandStage<D, K> layout,
                                           const StageWindow<const Element>& window, int thread) {
  constexpr int chunks = OperandStage<D, K>::chunks;
#pragma unroll
  for (int first = 0; first < chunks; first += Threads) {
    const int index = first + thread;
    if (chunks % Threads != 0 && index >= chunks) break;
    const int row = layout.row_of(index), chunk = layout.chunk_of(index), column = chunk * chunk_elements;
    const int present = row < window.rows ? min(max(window.columns - column, 0), chunk_elements) : 0;
    const Element* source = present > 0 ? window.base + row * window.leading_dimension + column : window.base;
    uint4* slot = stage + layout.slot(row, chunk);
    if (window.by_chunks)
      load_chunk<true>(slot, source, present);
    else
      load_chunk<false>(slot, source, present);
  }
}

/// Writes the first `present` (1..8) elements of a chunk, at once where it is whole and `by_chunks` allows
/// it.
template <class Element>
__device__ __forceinline__ void store_chunk(Element* target, const uint4& value, int present,
                                            bool by_chunks) {
  if (by_chunks && present >= chunk_elements) {
    *reinterpret_cast<uint4*>(target) = value;
  } else {
    const std::uint32_t words[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
    for (int i = 0; i < chunk_elements; ++i)
      if (i < present)
        reinterpret_cast<std::uint16_t*>(target)[i] =
            static_cast<std::uint16_t>(words[i / 2] >> (16 * (i % 2)));
  }
}

/// Writes a stage to global memory, as load_stage reads it.
template <int Threads, int D, int K, class Element>
__device__ __forceinline__ void store_stage(const uint4* stage, OperandStage<D, K> layout,
                                            const StageWindow<Element>& window, int thread) {
  constexpr int chunks = OperandStage<D, K>::chunks;
#pragma unroll 1
  for (int index = thread; index < chunks; index += Threads) {
    const int row = layout.row_of(index), chunk = layout.chunk_of(index), column = chunk * chunk_elements;
    const int present = row < window.rows ? min(max(window.columns - column, 0), chunk_elements) : 0;
    if (present == 0) continue;
    Element* target = window.base + row * window.leading_dimension + column;
    const uint4 value = stage[layout.slot(row, chunk)];
    store_chunk(target, value, present, window.by_chunks);
  }
}

/// The M x N part of a tile that one warp computes, at (m, n) of the tile.
template <class Element, int M, int N>
struct WarpTile {
  static_assert(M % 16 == 0 && N % 16 == 0);
  float sums[M / 16][N / 8][4] = {};

  /// Adds the product of one stage of each operand, K values of k.
  template <int LeftD, int RightD, int K>
  __device__ __forceinline__ void multiply(const uint4* left, OperandStage<LeftD, K> left_layout,
                                           const uint4* right, OperandStage<RightD, K> right_layout, int m,
                                           int n, int lane) {
#pragma unroll
    for (int k = 0; k < K; k += 16) {
      std::uint32_t left_pieces[M / 16][4], right_pieces[N / 16][4];
#pragma unroll
      for (int i = 0; i < M / 16; ++i)
        load_piece<true>(left_pieces[i], left, left_layout, m + i * 16, k, lane);
#pragma unroll
      for (int j = 0; j < N / 16; ++j)
        load_piece<false>(right_pieces[j], right, right_layout, n + j * 16, k, lane);
#pragma unroll
      for (int i = 0; i < M / 16; ++i)
#pragma unroll
        for (int j = 0; j < N / 8; ++j)
          multiply_fragments<Element>(sums[i][j], left_pieces[i], right_pieces[j / 2][j % 2 * 2],
                                      right_pieces[j / 2][j % 2 * 2 + 1]);
    }
  }

  /// Calls visit(row, column, value) for each of this lane's elements, counted from the warp's corner.
  template <class Visit>
  __device__ __forceinline__ void for_each(int lane, Visit visit) const {
#pragma unroll
    for (int i = 0; i < M / 16; ++i)
#pragma unroll
      for (int j = 0; j < N / 8; ++j)
#pragma unroll
        for (int s = 0; s < 4; ++s)
          visit(i * 16 + accumulator_row(lane, s), j * 8 + accumulator_column(lane, s), sums[i][j][s]);
  }

 private:
  template <bool Left, int D, int K>
  static __device__ __forceinline__ void load_piece(std::uint32_t (&piece)[4], const uint4* stage,
                                                    OperandStage<D, K> layout, int d, int k, int lane) {
    const PieceChunk source = ldmatrix_source(lane, Left, layout.k_inner);
    const int row = (layout.k_inner ? d : k) + source.row;
    const int chunk = (layout.k_inner ? k : d) / chunk_elements + source.chunk;
    load_matrices(piece,
                  static_cast<std::uint32_t>(__cvta_generic_to_shared(stage + layout.slot(row, chunk))),
                  !layout.k_inner);
  }
};

}  // namespace dropless
