// Pairs of blocks that share weights: when a product takes them, and which block of a pair computes what. A
// pair takes two row tiles of the list by the same features; where the two are of one expert each block loads
// half of its weights for both, which then pass L2 once instead of twice.
#pragma once
#include "dropless/row_tiles.hpp"
#include "sm90/tile_schedule.hpp"

namespace dropless::sm90 {

constexpr std::uint32_t blocks_of_a_pair = 2;

/// Whether a product of rows by weights takes pairs; from host-known bounds, and without a trace in the
/// result. Measured on an H200: pairs gain 2 to 11 % where experts have more rows than one tile holds and up
/// to 256. With more rows they gain 1 to 3 % on a cool chip and lose 1 to 4 % where power limits it, and with
/// k of 768 they lose 1 to 2 % in both: blocks wait for each other, and the loads that are saved bound the
/// time less.
constexpr bool takes_pairs(std::int64_t rows_bound, std::int64_t experts, std::int64_t k,
                           std::int64_t multiprocessors) {
  // By the usual rule of tiles, which the measured products have.
  return multiprocessors >= blocks_of_a_pair && k >= 1024 && rows_bound > tallest_tile_rows({}) * experts &&
         rows_bound <= 256 * experts;
}

/// The schedule of a grid whose every `together` blocks take as many row tiles together: 1, or a pair's. Its
/// places then name pairs of row tiles. `group`, of row tiles in the raster, is a multiple of `together`.
DROPLESS_HOST_DEVICE inline TileSchedule schedule_together(std::uint32_t together, std::uint32_t row_tiles,
                                                           std::uint32_t feature_tiles, std::uint32_t group,
                                                           std::uint32_t feature_subtiles,
                                                           std::uint32_t blocks) {
  const TileRaster raster{(row_tiles + together - 1) / together, feature_tiles, group / together};
  return {raster, feature_subtiles, blocks / together};
}

/// The first of a pair's row tiles.
DROPLESS_HOST_DEVICE constexpr std::uint32_t first_of_pair(const ScheduledTile& pair) {
  return pair.row_tile * blocks_of_a_pair;
}
/// Whether the list of `row_tiles` has the second one too.
DROPLESS_HOST_DEVICE constexpr bool is_whole(const ScheduledTile& pair, std::uint32_t row_tiles) {
  return first_of_pair(pair) + 1 < row_tiles;
}

/// What block `rank` of a pair computes of it: one of the row tiles, or half of the features of a single one,
/// which may be none.
DROPLESS_HOST_DEVICE constexpr ScheduledTile tile_of_block(const ScheduledTile& pair, std::uint32_t row_tiles,
                                                           std::uint32_t rank) {
  const std::uint32_t first = first_of_pair(pair);
  if (is_whole(pair, row_tiles)) return {first + rank, pair.first_subtile, pair.subtiles};
  const std::uint32_t half = (pair.subtiles + 1) / 2;
  if (rank == 0) return {first, pair.first_subtile, half};
  return {first, pair.first_subtile + half, pair.subtiles - half};
}

}  // namespace dropless::sm90
