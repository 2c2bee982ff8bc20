// What the kernels that multiply rows by their expert's weights share: tiles of 256 features by up to 160
// rows of one expert, features as wgmma's M and rows as its N, so that N follows the tile's rows; the boxes
// in which rows and weights come; and the multiplication of one tile.
#pragma once
#include "dropless/expert_products.hpp"
#include "sm90/ragged_map.hpp"
#include "sm90/tensor_map.hpp"
#include "sm90/tile_pipeline.cuh"
#include "sm90/tile_schedule.hpp"

namespace dropless::sm90 {

using RowTileMemory = TileMemory<160, 4, 2>;
constexpr int row_boxes = 5;
constexpr std::uint32_t row_tiles_of_a_group = 8;  // of the raster
static_assert(tile_subtiles == RowTileMemory::subtiles && widest_tile_columns == RowTileMemory::tile_m);

/// Rows of the boxes in which a tile's rows are loaded: a short tile takes a small one, since rows past the
/// tile's end still cost the writing of their zeros.
DROPLESS_HOST_DEVICE constexpr int box_rows(int box) {
  return box == row_boxes - 1 ? RowTileMemory::tile_n : 16 << box;
}
__device__ inline int smallest_box(int rows) {
  return rows <= 16 ? 0 : rows <= 32 ? 1 : rows <= 64 ? 2 : rows <= 128 ? 3 : 4;
}
__device__ inline int row_parts(int rows) { return (rows + 63) / 64; }

/// Whether L2 should give up a product's weights and output first. On an H200 (50 MB of L2) that gains 1 to 9
/// % where rows are few, since lines under way then displace lines that were read already and not each other;
/// it loses as much where the rows fill L2, which keeps them instead. Input rows count twice, for each half
/// of L2 has a copy. One answer for all tiles of a product: with both kinds of loads in one the gain is gone.
/// Measured at 1 to 10 MB (by this count) and at 29 and 34, where the weights alone do not gain; it loses at
/// 46 and more.
constexpr bool product_streams(std::int64_t rows_bound, std::int64_t k, std::int64_t n, ElementType type) {
  return rows_bound * (2 * k + n) * element_bytes(type) <= 36'000'000;
}

/// Loads box i of a stage: 64 features by one k block of an expert's matrix. for_pair: into both blocks of a
/// pair.
template <bool k_by_n>
__device__ inline void load_weights(RowTileMemory& memory, int stage, int i, const CUtensorMap* map,
                                    int feature, int k, int expert, bool stream, bool for_pair = false) {
  const std::int32_t at[3] = {k_by_n ? feature : k, k_by_n ? k : feature, expert};
  char* const box = memory.a[stage][i];
  std::uint64_t& full = memory.full[stage];
  if (for_pair)
    stream ? load_box_for_pair_once(box, map, at, full) : load_box_for_pair(box, map, at, full);
  else
    stream ? load_box_once(box, map, at, full) : load_box(box, map, at, full);
}

/// Multiplies one tile of up to 16 * sixteens rows: n is the smallest multiple of 16 that holds the tile's.
template <class Element, bool k_by_n, int sixteens = RowTileMemory::tile_n / 16>
__device__ __forceinline__ void multiply_row_tile(
    RowTileMemory& memory, RingPosition& ring, int warpgroup, int rows, int active, int k_blocks,
    float (&d)[RowTileMemory::subtiles_per_warpgroup][RowTileMemory::tile_n / 2]) {
  if constexpr (sixteens > 1)
    if (rows <= 16 * (sixteens - 1))
      return multiply_row_tile<Element, k_by_n, sixteens - 1>(memory, ring, warpgroup, rows, active, k_blocks,
                                                              d);
  if (active == 2)
    multiply_stages<Element, 16 * sixteens, 2, k_by_n, false>(memory, ring, warpgroup, k_blocks, 0, d);
  else
    multiply_stages<Element, 16 * sixteens, 1, k_by_n, false>(memory, ring, warpgroup, k_blocks, 0, d);
}

/// How much of what lies around a line of weights L2 fetches with it. Boxes of k_by_n weights lie side by
/// side, so that more comes twice: 128 bytes gain 3 to 6 % on an H200 where bytes bound. Of n_by_k weights
/// the next 128 bytes are the next k block's, and 256 gain 1 to 2 %; but where rows and weights compete for
/// L2 they lose 2 % (measured at 32 to 128 rows an expert and matrices of 1.5 to 4 million elements, an
/// expert's two tensors counted together; the rule's bounds are somewhat wider).
inline L2Fetch weight_fetch(const ExpertWeights& weights, std::int64_t rows_bound) {
  const bool compete = rows_bound >= 24 * weights.experts && rows_bound <= 160 * weights.experts &&
                       weights.k * weights.n < 8'000'000;
  return weights.order == WeightOrder::k_by_n || compete ? L2Fetch::bytes_128 : L2Fetch::bytes_256;
}

/// The map of one tensor of k x n matrices, in boxes of 64 x 64.
inline CUtensorMap weight_map(const ExpertWeights& weights, const void* data, std::int64_t expert_stride,
                              std::int64_t k, std::int64_t n, L2Fetch fetch) {
  const bool k_by_n = weights.order == WeightOrder::k_by_n;
  return matrix_map(data, k_by_n ? n : k, k_by_n ? k : n, weights.experts, weights.leading_dimension,
                    expert_stride, weights.type, fetch);
}

inline bool weights_addressable(const ExpertWeights& weights, const WeightTensor& tensor) {
  return tensor.matrices == nullptr && addressable(tensor.data, weights.leading_dimension, weights.type) &&
         addressable(tensor.data, tensor.expert_stride, weights.type);
}

}  // namespace dropless::sm90
