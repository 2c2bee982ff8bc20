// From a product to the tiles that a portable kernel computes one after another: each is a small dense
// product out[rows, columns] (+)= a[rows, k] b[k, columns] with the raggedness already resolved into pointers
// and limits. Shared by the tensor-core and the float kernels.
#pragma once
#include "product_arguments.hpp"
#include "product_tiles.hpp"

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

/// The steps of a product: as many as the device knows of, a bound on the host.
template <int TileRows, int TileColumns>
DROPLESS_HOST_DEVICE inline RowsByWeightsSteps steps_of(const RowsByWeights& product) {
#ifdef __CUDA_ARCH__
  const std::int32_t list_tiles = *product.rows.tile_count;
#else
  const auto list_tiles = static_cast<std::int32_t>(product.rows.tile_bound);
#endif
  return {list_tiles, tallest_tile_rows(product.rows.tile_rule), TileRows,
          column_tiles<TileColumns>(product).size()};
}
template <int TileRows, int TileColumns>
DROPLESS_HOST_DEVICE inline WeightGradientSteps steps_of(const RowsTransposedByRows& product) {
  return {product.dw.experts, product.dw.m, product.dw.n, TileRows, TileColumns};
}

/// Blocks of a persistent grid for a product.
template <int TileRows, int TileColumns, class Product>
unsigned grid_blocks(const Product& product) {
  const std::int64_t steps = steps_of<TileRows, TileColumns>(product).size();
  return static_cast<unsigned>(steps < product.multiprocessors ? steps : product.multiprocessors);
}

template <int TileRows>
__device__ inline KernelTile kernel_tile(const RowsByWeights& product, const RowTile& tile,
                                         std::int32_t part) {
  return kernel_tile(product.rows.row_count[tile.expert], product.rows.tile_rule, tile.expert_row, part,
                     TileRows);
}

/// Whether a step has rows, found sooner than its tile: most second parts of a list's tiles have none.
template <int TileRows>
__device__ inline bool has_rows(const RowsByWeights& product, const RowsByWeightsStep& step) {
  return kernel_tile<TileRows>(product, product.rows.tiles[step.list_tile], step.part).rows > 0;
}
template <int TileRows>
__device__ inline bool has_rows(const RowsTransposedByRows&, const WeightGradientStep&) {
  return true;
}

template <class Element, int TileRows, int TileColumns>
__device__ inline TileProblem<Element> tile_problem(const RowsByWeights& product, RowsByWeightsStep step) {
  const ExpertWeights& weights = product.weights;
  const RowTile tile = product.rows.tiles[step.list_tile];
  auto n = static_cast<std::int32_t>(weights.n), k = static_cast<std::int32_t>(weights.k);
  if (weights.widths.d_ff != nullptr) (product.ragged_n ? n : k) = weights.widths.d_ff[tile.expert];
  const ColumnTiles all_columns = column_tiles<TileColumns>(product);
  const std::int32_t n_part = n / all_columns.parts;
  const ColumnTile columns = all_columns.at(step.column_tile, n_part);

  TileProblem<Element> problem;
  const KernelTile rows = kernel_tile<TileRows>(product, tile, step.part);
  const std::int64_t row = std::int64_t{tile.row_begin} - tile.expert_row + rows.expert_row;
  problem.rows = rows.rows;
  problem.columns = columns.size;
  problem.k_parts = has_second(weights) && !product.split_n ? 2 : 1;
  problem.k_part = k / problem.k_parts;
  problem.a = static_cast<const Element*>(product.in.data) + row * product.in.leading_dimension;
  problem.a_leading_dimension = product.in.leading_dimension;
  problem.b_leading_dimension = weights.leading_dimension;
  const std::int64_t b_offset =
      columns.begin * (weights.order == WeightOrder::n_by_k ? weights.leading_dimension : 1);
  const WeightTensor& tensor = columns.part == 0 ? weights.first : weights.second;
  problem.b = expert_matrix<Element>(weights, tensor, tile.expert, product.ragged_n) + b_offset;
  problem.b_second = problem.b;
  if (problem.k_parts == 2)
    problem.b_second =
        expert_matrix<Element>(weights, weights.second, tile.expert, product.ragged_n) + b_offset;
  problem.out_leading_dimension = product.out.leading_dimension;
  problem.out = static_cast<char*>(product.out.data) +
                (row * product.out.leading_dimension + columns.part * n_part + columns.begin) *
                    element_bytes(product.out.type);
  return problem;
}

template <class Element, int TileRows, int TileColumns>
__device__ inline TileProblem<Element> tile_problem(const RowsTransposedByRows& product,
                                                    WeightGradientStep step) {
  const auto [expert, m, n] = step;
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

}  // namespace dropless
