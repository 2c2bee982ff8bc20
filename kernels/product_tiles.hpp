// Which part of a product each step of a portable grid computes: plain index arithmetic, so that the CPU can
// test that every output element is covered exactly once and count the rows that are scheduled.
#pragma once
#include "dropless/integer_math.hpp"
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
/// a launch of 2^31 tiles is refused. Though each held a single row or column, 128 elements, the output would
/// have 2^38.)
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

/// Some of an expert's rows, which a kernel computes at once.
struct ExpertTile {
  std::int32_t expert_row;  ///< the first, within the expert
  std::int32_t rows;
};

/// How a portable kernel cuts an expert's rows: into as few tiles of at most tile_rows (a multiple of 16) as
/// there must be, of nearly equal height in steps of 16. Not into those of the tile list, which may be taller
/// than the kernel's: the part of one that is left over would cost as much as a whole tile.
struct ExpertTiles {
  std::int32_t tile_rows;

  DROPLESS_HOST_DEVICE constexpr std::int32_t count(std::int32_t expert_rows) const {
    return expert_rows > 0 ? (expert_rows - 1) / tile_rows + 1 : 0;
  }
  /// Tile `index` of [0, count(expert_rows)).
  DROPLESS_HOST_DEVICE constexpr ExpertTile at(std::int32_t expert_rows, std::int32_t index) const {
    const std::int32_t sixteens = (expert_rows - 1) / 16 + 1, tiles = count(expert_rows);
    const std::int32_t low = sixteens / tiles, taller = sixteens % tiles;
    const std::int32_t begin = (index * low + (index < taller ? index : taller)) * 16;
    const std::int32_t height = (low + (index < taller)) * 16, left = expert_rows - begin;
    return {begin, height < left ? height : left};
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
  DROPLESS_HOST_DEVICE std::uint32_t size() const {
    return static_cast<std::uint32_t>(experts) * raster().size();
  }
  DROPLESS_HOST_DEVICE WeightGradientStep at(std::uint32_t index) const {
    const TileRaster tiles = raster();
    const TileRaster::Position position = tiles.at(index % tiles.size());
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
