// The order in which a persistent grid walks (row tile, column tile) pairs: groups of row tiles, and within a
// group all row tiles of one column tile before the next, so that the blocks at work at one time share few
// operands in L2.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

struct TileRaster {
  std::uint32_t row_tiles;
  std::uint32_t column_tiles;
  std::uint32_t group;  // row tiles of a group, at least 1

  struct Position {
    std::uint32_t row_tile, column_tile;
  };

  DROPLESS_HOST_DEVICE std::uint32_t size() const { return row_tiles * column_tiles; }

  /// The pair at place `work` in [0, size()); every pair has exactly one place.
  DROPLESS_HOST_DEVICE Position at(std::uint32_t work) const {
    const std::uint32_t per_group = group * column_tiles, first = work / per_group * group;
    const std::uint32_t height = row_tiles - first < group ? row_tiles - first : group;
    const std::uint32_t inside = work % per_group;
    return {first + inside % height, inside / height};
  }
};

}  // namespace dropless
