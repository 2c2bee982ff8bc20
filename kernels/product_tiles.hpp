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
  std::int32_t cut;          ///< of that entry's rows
  std::int32_t column_tile;  ///< of the column tiles
};

/// Some rows of a tile of the list; none where rows is 0.
struct TileCut {
  std::int32_t first_row, rows;
};

/// A tile of the list that is taller than a kernel's is cut again, into as few cuts of nearly equal height,
/// in steps of 16, as there must be. kernel_tile_rows: a multiple of 16.
DROPLESS_HOST_DEVICE constexpr TileCut tile_cut(std::int32_t tile_rows, std::int32_t cut,
                                                std::int32_t kernel_tile_rows) {
  const std::int32_t cuts = (tile_rows + kernel_tile_rows - 1) / kernel_tile_rows;
  const std::int32_t height = ((tile_rows + cuts - 1) / cuts + 15) / 16 * 16;
  const std::int32_t left = tile_rows - cut * height;
  return {cut * height, left < 0 ? 0 : left < height ? left : height};
}

/// The steps of rows x weights: (cut of a tile of the list, column tile).
struct RowsByWeightsSteps {
  std::int32_t list_tiles;
  std::int32_t list_tile_rows;  ///< the most rows of a tile in the list
  std::int32_t kernel_tile_rows;
  std::int32_t column_tiles;

  DROPLESS_HOST_DEVICE constexpr std::int32_t cuts() const {
    return (list_tile_rows - 1) / kernel_tile_rows + 1;
  }
  DROPLESS_HOST_DEVICE constexpr std::int64_t size() const {
    return std::int64_t{list_tiles} * cuts() * column_tiles;
  }
  DROPLESS_HOST_DEVICE RowsByWeightsStep at(std::int64_t index) const {
    const TileRaster raster{static_cast<std::uint32_t>(list_tiles * cuts()),
                            static_cast<std::uint32_t>(column_tiles), raster_group};
    const TileRaster::Position position = raster.at(static_cast<std::uint32_t>(index));
    const auto row_tile = static_cast<std::int32_t>(position.row_tile);
    // First cuts come before all second ones, of which most are empty: spread among the first they would all
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
