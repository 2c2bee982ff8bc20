// How the rows of one expert are cut into tiles. This is the one place that says how many rows a product
// schedules: the Hopper kernels walk these tiles and the report counts them, so the two cannot drift apart.
// (The portable kernels cut tiles of another height, in the same steps of 16, and schedule the same rows.)
//
// An expert's rows are cut into ceil(rows / tile_rows) tiles of nearly equal height, or into one fewer where
// those would be at most an eighth taller than tile_rows (a quarter where one or two are left): each tile
// reads the expert's weights once, and a slightly taller one costs less than another one. Every tile but the
// expert's last is a whole number of granules, so an expert with n rows schedules exactly round_up(n,
// granule) rows.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

/// tile_rows: the rows of a full tile. granule: the step in which a tile's matrix arithmetic grows. tile_rows
/// is a multiple of granule; both are positive.
struct RowTileRule {
  std::int32_t tile_rows = 128;
  std::int32_t granule = 16;
};

/// One tile of one expert: packed rows [row_begin, row_begin + rows); rows is at least 1. `expert_row` is the
/// first row's index within its expert. 16 bytes, the entry of a device tile list.
struct RowTile {
  std::int32_t expert;
  std::int32_t row_begin;
  std::int32_t rows;
  std::int32_t expert_row;
};

/// The most columns of an output that any tile of this library's products holds.
inline constexpr std::int64_t widest_tile_columns = 256;

/// The most rows any tile holds: a quarter more than tile_rows, in whole granules.
DROPLESS_HOST_DEVICE constexpr std::int32_t tallest_tile_rows(RowTileRule rule) {
  return static_cast<std::int32_t>((std::int64_t{rule.tile_rows} + rule.tile_rows / 4) / rule.granule *
                                   rule.granule);
}

/// The most rows of a tile where an expert has three or more: an eighth more than tile_rows, in whole
/// granules.
DROPLESS_HOST_DEVICE constexpr std::int32_t stretched_tile_rows(RowTileRule rule) {
  return static_cast<std::int32_t>((std::int64_t{rule.tile_rows} + rule.tile_rows / 8) / rule.granule *
                                   rule.granule);
}

/// Tiles of an expert with `rows` rows; 0 for an empty expert.
DROPLESS_HOST_DEVICE constexpr std::int64_t row_tile_count(std::int64_t rows, RowTileRule rule) {
  if (rows <= tallest_tile_rows(rule)) return rows > 0;
  const std::int64_t tiles = ceil_div(rows, rule.tile_rows);
  const std::int32_t most = tiles == 3 ? tallest_tile_rows(rule) : stretched_tile_rows(rule);
  return rows <= (tiles - 1) * most ? tiles - 1 : tiles;
}

/// First row (within the expert) of tile `index` of an expert with `rows` rows, for index in
/// [0, row_tile_count]; index == row_tile_count gives `rows`. Tile i holds rows [begin(i), begin(i + 1)). For
/// fewer than 2^31 tiles.
DROPLESS_HOST_DEVICE constexpr std::int64_t row_tile_begin(std::int64_t rows, std::int64_t index,
                                                           RowTileRule rule) {
  const std::int64_t granules = ceil_div(rows, rule.granule), tiles = row_tile_count(rows, rule);
  if (index >= tiles) return rows;
  return (granules / tiles * index + granules % tiles * index / tiles) * rule.granule;
}

/// Rows for which the tiles of an expert with `rows` rows spend matrix arithmetic.
DROPLESS_HOST_DEVICE constexpr std::int64_t scheduled_rows(std::int64_t rows, RowTileRule rule) {
  return round_up(rows, rule.granule);
}

/// The most tiles that `rows` rows over `experts` experts can need: an upper bound from host-known numbers.
DROPLESS_HOST_DEVICE constexpr std::int64_t row_tile_bound(std::int64_t rows, std::int64_t experts,
                                                           RowTileRule rule) {
  const std::int64_t nonempty = rows < experts ? rows : experts;
  return nonempty + (rows - nonempty) / rule.tile_rows;
}

}  // namespace dropless
