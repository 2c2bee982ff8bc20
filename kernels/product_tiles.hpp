// Which part of a product each step of a portable grid computes: plain index arithmetic, so that the CPU can
// test that every output element is covered exactly once and count the rows that are scheduled.
#pragma once
#include "dropless/integer_math.hpp"
#include "dropless/row_tiles.hpp"
#include "tile_raster.hpp"

namespace dropless {

/// Row tiles that share their weights in L2 while the grid walks along the columns.
inline constexpr std::uint32_t raster_group = 8;

struct ColumnTile {
  std::int32_t part;
  std::int32_t begin;  ///< first column, within the part
  std::int32_t size;   ///< zero or less where the tile lies past an expert's part
};

/// The columns of a product cut into tiles. They come in equal parts (gate and up as two tensors) and no tile
/// spans two; experts whose parts are narrower leave their last tiles empty. (Here and below 32 bits suffice:
/// 2^31 tiles would be an output of 2^46 elements.)
struct ColumnTiles {
  std::int32_t widest_part;  ///< columns of the widest expert's part
  std::int32_t parts;
  std::int32_t tile_columns;

  DROPLESS_HOST_DEVICE constexpr std::int32_t tiles_per_part() const {
    return (widest_part - 1) / tile_columns + 1;
  }
  DROPLESS_HOST_DEVICE constexpr std::int32_t size() const { return parts * tiles_per_part(); }
  /// Tile `index` of [0, size()) for an expert whose parts have `part_columns` columns.
  DROPLESS_HOST_DEVICE constexpr ColumnTile at(std::int32_t index, std::int32_t part_columns) const {
    const std::int32_t begin = index % tiles_per_part() * tile_columns, left = part_columns - begin;
    return {index / tiles_per_part(), begin, left < tile_columns ? left : tile_columns};
  }
};

struct RowsByWeightsStep {
  std::int32_t list_tile;    ///< entry of the tile list
  std::int32_t part;         ///< which of the kernel's tiles that the entry stands for
  std::int32_t column_tile;  ///< of the column tiles
};

/// Rows of an expert that a kernel computes at once; none where rows is 0.
struct KernelTile {
  std::int64_t expert_row;
  std::int32_t rows;
};

/// A kernel whose tiles have other heights than those of the list cuts an expert's rows anew: into as few
/// tiles of at most kernel_tile_rows (a multiple of 16) as there must be, of nearly equal height in steps
/// of 16. The expert's tiles of the list share them out in order: this is number `part` of those that fall to
/// the list's tile that begins at `list_expert_row`, where `list_rule` cut the expert's `rows`.
DROPLESS_HOST_DEVICE constexpr KernelTile kernel_tile(std::int64_t rows, RowTileRule list_rule,
                                                      std::int64_t list_expert_row, std::int32_t part,
                                                      std::int32_t kernel_tile_rows) {
  const std::int64_t list_tiles = row_tile_count(rows, list_rule);
  if (list_tiles == 0) return {0, 0};
  const std::int64_t list_tile =
      ceil_div(list_expert_row / list_rule.granule * list_tiles, ceil_div(rows, list_rule.granule));
  const std::int64_t tiles = ceil_div(rows, kernel_tile_rows), tile = tiles * list_tile / list_tiles + part;
  if (tile >= tiles * (list_tile + 1) / list_tiles) return {0, 0};
  const std::int64_t sixteens = ceil_div(rows, 16), begin = sixteens * tile / tiles * 16;
  const std::int64_t end = sixteens * (tile + 1) / tiles * 16;
  return {begin, static_cast<std::int32_t>((end < rows ? end : rows) - begin)};
}

/// The steps of rows x weights: (kernel tile of a tile of the list, column tile).
struct RowsByWeightsSteps {
  std::int32_t list_tiles;
  std::int32_t list_tile_rows;  ///< the most rows of a tile in the list
  std::int32_t kernel_tile_rows;
  std::int32_t column_tiles;

  /// The most kernel tiles that one tile of the list stands for.
  DROPLESS_HOST_DEVICE constexpr std::int32_t parts() const {
    return (list_tile_rows - 1) / kernel_tile_rows + 1;
  }
  DROPLESS_HOST_DEVICE constexpr std::int64_t size() const {
    return std::int64_t{list_tiles} * parts() * column_tiles;
  }
  DROPLESS_HOST_DEVICE RowsByWeightsStep at(std::int64_t index) const {
    const TileRaster raster{static_cast<std::uint32_t>(list_tiles * parts()),
                            static_cast<std::uint32_t>(column_tiles), raster_group};
    const TileRaster::Position position = raster.at(static_cast<std::uint32_t>(index));
    const auto row_tile = static_cast<std::int32_t>(position.row_tile);
    // First parts come before all second ones, of which most are empty: spread among the first they would all
    // fall to the same blocks of a persistent grid.
    return {row_tile % list_tiles, row_tile / list_tiles, static_cast<std::int32_t>(position.column_tile)};
  }
};

struct WeightGradientStep {
  std::int64_t expert, m, n;  ///< the tile's first row and column of the expert's gradient
};

/// The steps of a weight gradient: the tiles of one expert's m x n matrix after those of the one before.
struct WeightGradientSteps {
  std::int64_t experts, m, n;
  std::int32_t tile_rows, tile_columns;

  DROPLESS_HOST_DEVICE constexpr TileRaster raster() const {
    return {static_cast<std::uint32_t>(ceil_div(m, tile_rows)),
            static_cast<std::uint32_t>(ceil_div(n, tile_columns)), raster_group};
  }
  DROPLESS_HOST_DEVICE std::int64_t size() const { return experts * raster().size(); }
  DROPLESS_HOST_DEVICE WeightGradientStep at(std::int64_t index) const {
    const TileRaster tiles = raster();
    const TileRaster::Position position = tiles.at(static_cast<std::uint32_t>(index % tiles.size()));
    return {index / tiles.size(), std::int64_t{position.row_tile} * tile_rows,
            std::int64_t{position.column_tile} * tile_columns};
  }
};

/// Where a warp of the tensor-core kernel works: its row of warps (of 2) and its column of warps (of 4).
struct WarpPlace {
  int row;
  int column;
};

/// The place of warp `warp` of 8. Warps w and w + 4 share a scheduler of the multiprocessor: they get
/// different rows, so that an odd number of pieces loads all four schedulers alike, and columns two apart, so
/// that a half-empty tile does.
DROPLESS_HOST_DEVICE constexpr WarpPlace warp_place(int warp) { return {(warp + warp / 4) % 2, warp / 2}; }

/// How many of a tile's 16-row pieces warp row `warp_row` computes: pieces warp_row, warp_row + warp_rows,
/// ...
DROPLESS_HOST_DEVICE constexpr int pieces_of_warp_row(int tile_rows, int warp_row, int warp_rows) {
  const int pieces = (tile_rows + 15) / 16;
  return (pieces - warp_row + warp_rows - 1) / warp_rows;
}

}  // namespace dropless
