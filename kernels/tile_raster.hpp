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

/// Into how many pieces (1, 2 or 4) to cut each of the `rest` tiles, fewer than `blocks`, of a last
/// incomplete wave. A half costs about 0.55 of its tile and a quarter 0.35, since the rows are loaded again
/// for each piece.
DROPLESS_HOST_DEVICE constexpr std::uint32_t last_wave_parts(std::uint32_t rest, std::uint32_t blocks) {
  const auto rounds = [&](std::uint32_t parts) { return (rest * parts + blocks - 1) / blocks; };
  const std::uint32_t whole = rounds(1) * 100, halves = rounds(2) * 55, quarters = rounds(4) * 35;
  return whole <= halves && whole <= quarters ? 1 : halves <= quarters ? 2 : 4;
}

}  // namespace dropless
