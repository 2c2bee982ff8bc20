// From a product to the tiles that a portable kernel computes one after another: each is a small dense
// product out[rows, columns] (+)= a[rows, k] b[k, columns] with the raggedness already resolved into pointers
// and limits. Shared by the tensor-core and the float kernels.
#pragma once
#include <utility>

#include "device_warp.cuh"
#include "expert_tile_search.hpp"
#include "product_arguments.hpp"

namespace dropless {

/// One tile. k comes in `k_parts` parts of `k_part` values each, summed one after the other: the second part
/// of a continues in its columns, that of b is another tensor.
template <class Element>
struct TileProblem {
  const Element* a;
  const Element* b;
  const Element* b_second;
  std::int64_t a_leading_dimension, b_leading_dimension;
  std::int32_t rows, columns;  // nothing to compute where either is below 1
  std::int32_t k_part, k_parts;
  char* out;  // the tile's first element
  std::int64_t out_leading_dimension;
};

/// The first element of expert `expert`'s matrix.
template <class Element>
__device__ inline const Element* expert_matrix(const ExpertWeights& weights, const WeightTensor& tensor,
                                               int expert, bool ragged_n) {
  if (tensor.matrices != nullptr) return static_cast<const Element*>(tensor.matrices[expert]);
  const auto* data = static_cast<const Element*>(tensor.data);
  if (weights.widths.d_ff == nullptr) return data + expert * tensor.expert_stride;
  const bool d_ff_outermost = ragged_n == (weights.order == WeightOrder::n_by_k);
  return data + weights.widths.d_ff_begin[expert] * (d_ff_outermost ? weights.leading_dimension : 1);
}

/// The column tiles of rows x weights.
template <int TileColumns>
DROPLESS_HOST_DEVICE inline ColumnTiles column_tiles(const RowsByWeights& product) {
  const std::int32_t parts = product.split_n ? 2 : 1;
  return {static_cast<std::int32_t>(product.weights.n) / parts, parts, TileColumns};
}

/// The tiles of rows x weights, in raster order over (every expert's tiles, column tiles). By whole warps,
/// whose lanes all hold the same.
template <int TileRows, int TileColumns>
class RowsByWeightsWalk {
 public:
  RowsByWeightsWalk() = default;
  __device__ __forceinline__ explicit RowsByWeightsWalk(const RowsByWeights& product)
      : raster_{Search::tile_count(product.rows.row_count, experts(product)),
                static_cast<std::uint32_t>(column_tiles<TileColumns>(product).size()), raster_group},
        search_(Search::from_the_start()) {}
  __device__ __forceinline__ std::uint32_t size() const { return raster_.size(); }

  /// Tile `index` of [0, size()), which is not below that of the last call.
  template <class Element>
  __device__ __forceinline__ TileProblem<Element> problem(const RowsByWeights& product, std::uint32_t index) {
    const TileRaster::Position position = raster_.at(index);
    const PlacedTile place = search_.find(product.rows.row_count, experts(product), position.row_tile);
    return tile_problem<Element>(product, place.expert, place.tile,
                                 static_cast<std::int32_t>(position.column_tile));
  }

 private:
  using Search = ExpertTileSearch<DeviceWarp, TileRows>;

  __device__ __forceinline__ static std::int32_t experts(const RowsByWeights& product) {
    return static_cast<std::int32_t>(product.rows.experts);
  }

  template <class Element>
  __device__ __forceinline__ static TileProblem<Element> tile_problem(const RowsByWeights& product,
                                                                      int expert, ExpertTile tile,
                                                                      std::int32_t column_tile) {
    const ExpertWeights& weights = product.weights;
    auto n = static_cast<std::int32_t>(weights.n), k = static_cast<std::int32_t>(weights.k);
    if (weights.widths.d_ff != nullptr) (product.ragged_n ? n : k) = weights.widths.d_ff[expert];
    const ColumnTiles all_columns = column_tiles<TileColumns>(product);
    const std::int32_t n_part = n / all_columns.parts;
    const ColumnTile columns = all_columns.at(column_tile, n_part);

    TileProblem<Element> problem;
    const std::int64_t row = std::int64_t{product.rows.row_begin[expert]} + tile.expert_row;
    problem.rows = tile.rows;
    problem.columns = columns.size;
    problem.k_parts = has_second(weights) && !product.split_n ? 2 : 1;
    problem.k_part = k / problem.k_parts;
    problem.a = static_cast<const Element*>(product.in.data) + row * product.in.leading_dimension;
    problem.a_leading_dimension = product.in.leading_dimension;
    problem.b_leading_dimension = weights.leading_dimension;
    const std::int64_t b_offset =
        columns.begin * (weights.order == WeightOrder::n_by_k ? weights.leading_dimension : 1);
    const WeightTensor& tensor = columns.part == 0 ? weights.first : weights.second;
    problem.b = expert_matrix<Element>(weights, tensor, expert, product.ragged_n) + b_offset;
    problem.b_second = problem.b;
    if (problem.k_parts == 2)
      problem.b_second = expert_matrix<Element>(weights, weights.second, expert, product.ragged_n) + b_offset;
    problem.out_leading_dimension = product.out.leading_dimension;
    problem.out = static_cast<char*>(product.out.data) +
                  (row * product.out.leading_dimension + columns.part * n_part + columns.begin) *
                      element_bytes(product.out.type);
    return problem;
  }

  TileRaster raster_;
  Search search_;
};

/// The same of a weight gradient.
template <int TileRows, int TileColumns>
class WeightGradientWalk {
 public:
  WeightGradientWalk() = default;
  __device__ __forceinline__ explicit WeightGradientWalk(const RowsTransposedByRows& product)
      : steps_{product.dw.experts, product.dw.m, product.dw.n, TileRows, TileColumns} {}
  __device__ __forceinline__ std::uint32_t size() const { return steps_.size(); }

  template <class Element>
  __device__ __forceinline__ TileProblem<Element> problem(const RowsTransposedByRows& product,
                                                          std::uint32_t index) const {
    const auto [expert, m, n] = steps_.at(index);
    const std::int64_t begin = product.rows.row_begin[expert];
    const int count = product.rows.row_count[expert];

    TileProblem<Element> problem;
    problem.rows = static_cast<int>(min(product.dw.m - m, static_cast<std::int64_t>(TileRows)));
    problem.columns = static_cast<int>(min(product.dw.n - n, static_cast<std::int64_t>(TileColumns)));
    if (count <= 0 && product.accumulate) problem.columns = 0;
    problem.k_part = max(count, 0);
    problem.k_parts = 1;
    problem.a = static_cast<const Element*>(product.a.data) + begin * product.a.leading_dimension + m;
    problem.b = static_cast<const Element*>(product.b.data) + begin * product.b.leading_dimension + n;
    problem.b_second = problem.b;
    problem.a_leading_dimension = product.a.leading_dimension;
    problem.b_leading_dimension = product.b.leading_dimension;
    problem.out_leading_dimension = product.dw.leading_dimension;
    const std::int64_t offset = m * product.dw.leading_dimension + n;
    problem.out =
        product.dw.matrices != nullptr
            ? static_cast<char*>(product.dw.matrices[expert]) + offset * element_bytes(product.dw.type)
            : static_cast<char*>(product.dw.data) +
                  (expert * product.dw.expert_stride + offset) * element_bytes(product.dw.type);
    return problem;
  }

 private:
  WeightGradientSteps steps_;
};

template <int TileRows, int TileColumns>
RowsByWeightsWalk<TileRows, TileColumns> walk_of(const RowsByWeights&);
template <int TileRows, int TileColumns>
WeightGradientWalk<TileRows, TileColumns> walk_of(const RowsTransposedByRows&);
/// The walk over a product's tiles.
template <int TileRows, int TileColumns, class Product>
using TileWalk = decltype(walk_of<TileRows, TileColumns>(std::declval<const Product&>()));

/// How many tiles a product may have, from what the host knows.
template <int TileRows, int TileColumns>
std::int64_t tile_bound(const RowsByWeights& product) {
  const ExpertRows& rows = product.rows;
  return row_tile_bound(rows.rows_bound, rows.experts, {TileRows, 16}) *
         column_tiles<TileColumns>(product).size();
}
template <int TileRows, int TileColumns>
std::int64_t tile_bound(const RowsTransposedByRows& product) {
  return product.dw.experts * ceil_div(product.dw.m, TileRows) * ceil_div(product.dw.n, TileColumns);
}

/// Blocks of a persistent grid for a product. Throws Error where it has more tiles than the blocks can count.
template <int TileRows, int TileColumns, class Product>
unsigned grid_blocks(const Product& product) {
  const std::int32_t tiles =
      checked_int32(tile_bound<TileRows, TileColumns>(product), "tiles of the product");
  return static_cast<unsigned>(tiles < product.multiprocessors ? tiles : product.multiprocessors);
}

}  // namespace dropless
