// How the columns of a product are cut into tiles where they come in equal parts (gate and up as two
// tensors): no tile spans two parts. Plain index arithmetic, so that the CPU can test that every column is
// covered once.
#pragma once
#include "dropless/integer_math.hpp"

namespace dropless {

struct ColumnTile {
  std::int64_t part;
  std::int64_t begin;  ///< first column, within the part
  std::int64_t size;   ///< zero or less where the tile lies past an expert's part
};

/// Parts of one width cut into tiles; experts whose parts are narrower leave their last tiles empty.
struct ColumnTiles {
  std::int64_t widest_part;  ///< columns of the widest expert's part
  std::int64_t parts;
  std::int64_t tile_columns;

  DROPLESS_HOST_DEVICE constexpr std::int64_t size() const {
    return parts * ceil_div(widest_part, tile_columns);
  }
  /// Tile `index` of [0, size()) for an expert whose parts have `part_columns` columns.
  DROPLESS_HOST_DEVICE constexpr ColumnTile at(std::int64_t index, std::int64_t part_columns) const {
    const std::int64_t per_part = ceil_div(widest_part, tile_columns);
    const std::int64_t begin = index % per_part * tile_columns, left = part_columns - begin;
    return {index / per_part, begin, left < tile_columns ? left : tile_columns};
  }
};

}  // namespace dropless
