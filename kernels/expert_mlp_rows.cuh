// How the steps of an expert layer walk its rows: a thread block takes a tile of the tile list, or a share of
// its rows, and a warp one row at a time. A row's columns move by chunks of 16 bytes where base, pitch and
// width allow it, else by elements; the choice is made once a row.
#pragma once
#include <algorithm>

#include "expert_mlp_steps.hpp"
#include "launch.cuh"
#include "row_segments.cuh"

namespace dropless {

constexpr int layer_threads = 256, layer_warps = layer_threads / 32;

/// LayerRows as the kernels take them.
struct RowWalk {
  const RowTile* tiles;
  const std::int32_t* tile_count;
  const std::int32_t* row_to_assignment;
  std::int32_t top_k;

  explicit RowWalk(const LayerRows& rows)
      : tiles(rows.rows.tiles),
        tile_count(rows.rows.tile_count),
        row_to_assignment(rows.row_to_assignment),
        top_k(static_cast<std::int32_t>(rows.order.top_k)) {}

  __device__ std::int64_t assignment(std::int64_t row) const {
    return row_to_assignment != nullptr ? row_to_assignment[row] : row;
  }
  /// The row of x that became this row.
  __device__ std::int64_t token(std::int64_t row) const {
    return row_to_assignment != nullptr ? row_to_assignment[row] / top_k : row;
  }
  __device__ float factor(const RowFactors& factors, std::int64_t row) const {
    return factors.weights != nullptr ? factors.scale * factors.weights[assignment(row)] : factors.scale;
  }
  /// Calls visit(row, expert) for the rows of the calling warp: block x takes tiles, block y shares a tile.
  template <class Visit>
  __device__ void for_each_row(Visit visit) const {
    const int warp = static_cast<int>(blockIdx.y) * layer_warps + static_cast<int>(threadIdx.x) / 32;
    for (int tile = static_cast<int>(blockIdx.x); tile < *tile_count; tile += static_cast<int>(gridDim.x)) {
      const RowTile rows = tiles[tile];
      for (int row = warp; row < rows.rows; row += static_cast<int>(gridDim.y) * layer_warps)
        visit(std::int64_t{rows.row_begin} + row, rows.expert);
    }
  }
};

/// About one row a warp. Where rows are few, `segments` blocks (block z) share the columns of a row.
inline dim3 row_walk_grid(const LayerRows& rows, std::int64_t most_segments) {
  constexpr std::int64_t enough_warps = 4096;  // to fill any GPU
  const std::int64_t row_bound = std::max<std::int64_t>(rows.rows.rows_bound, 1);
  const std::int64_t tiles = std::clamp<std::int64_t>(rows.rows.tile_bound, 1, 1 << 20);
  const std::int64_t shares = std::min<std::int64_t>(ceil_div(row_bound, tiles * layer_warps), 1024);
  const std::int64_t segments = std::min(
      {ceil_div(enough_warps, row_bound), std::max<std::int64_t>(most_segments, 1), std::int64_t{64}});
  return dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(shares), static_cast<unsigned>(segments));
}

/// The row matrices of one step: whether all of them can be accessed by chunks, as far as the host knows.
class ChunkAccess {
 public:
  template <class View>
  ChunkAccess& with(const View& view) {
    return with(view.data, view.leading_dimension);
  }
  ChunkAccess& with(const void* data, std::int64_t leading_dimension) {
    possible_ = possible_ && reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && leading_dimension % 8 == 0;
    return *this;
  }
  bool possible() const { return possible_; }

 private:
  bool possible_ = true;
};

/// A matrix of 16-bit elements.
template <class Element>
struct ElementRows {
  Element* data;
  std::int64_t pitch;
  __device__ Element* row(std::int64_t index) const { return data + index * pitch; }
};
template <class Element>
ElementRows<const Element> element_rows(const RowsView& view) {
  return {static_cast<const Element*>(view.data), view.leading_dimension};
}
template <class Element>
ElementRows<Element> element_rows(const MutableRowsView& view) {
  return {static_cast<Element*>(view.data), view.leading_dimension};
}

/// Calls `function` with a value of the 16-bit element type.
template <class Function>
void with_element(ElementType type, Function function) {
  if (type == ElementType::bf16) return function(__nv_bfloat16{});
  function(__half{});
}

__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

/// `count` chunks of one row, `step` apart from `first` on; those from `end` on are zero.
template <class Chunk, int count>
__device__ inline void load_chunks(const void* row, int first, int step, int end, Chunk (&chunks)[count]) {
#pragma unroll
  for (int i = 0; i < count; ++i)
    chunks[i] = first + i * step < end ? static_cast<const Chunk*>(row)[first + i * step] : Chunk{};
}

/// The warp's share of the dot product of two rows of `width` elements.
template <class Element, class Chunk>
__device__ float lane_dot(const Element* left, const Element* right, int width) {
  using Elements = ChunkElements<Element, Chunk>;
  constexpr int accesses = 2;
  const int end = width / Elements::count;
  float dot[accesses] = {};
  for (int first = static_cast<int>(threadIdx.x) % 32; first < end; first += 32 * accesses) {
    Chunk left_chunks[accesses], right_chunks[accesses];
    load_chunks(left, first, 32, end, left_chunks);
    load_chunks(right, first, 32, end, right_chunks);
#pragma unroll
    for (int i = 0; i < accesses; ++i) {
      const Elements l(left_chunks[i]), r(right_chunks[i]);
#pragma unroll
      for (int j = 0; j < Elements::count; ++j) dot[i] = fmaf(l.value[j], r.value[j], dot[i]);
    }
  }
  return dot[0] + dot[1];
}

/// Zeros in the gradients of weights whose assignment is no row; the walk over rows writes the others.
__device__ inline void zero_where_no_row(const RowOrder& order, float* weights_gradient) {
  if (weights_gradient == nullptr || order.assignment_to_row == nullptr) return;
  const std::int64_t blocks = std::int64_t{gridDim.x} * gridDim.y;
  const std::int64_t block = std::int64_t{blockIdx.y} * gridDim.x + blockIdx.x;
  for (std::int64_t i = block * layer_threads + threadIdx.x; i < order.tokens * order.top_k;
       i += blocks * layer_threads)
    if (order.assignment_to_row[i] < 0) weights_gradient[i] = 0.0f;
}

}  // namespace dropless
