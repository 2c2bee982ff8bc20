// Which tiles a persistent grid computes in which order: those of the complete waves whole, those of the
// last, incomplete wave cut along the features where that lets the blocks end together.
#pragma once
#include "tile_raster.hpp"

namespace dropless::sm90 {

constexpr std::uint32_t tile_subtiles = 4;  // of 64 features, in a whole tile of a product

/// A tile or a piece of one: a row tile of the list by `subtiles` subtiles from `first_subtile`; 0 where the
/// tile ends before the piece.
struct ScheduledTile {
  std::uint32_t row_tile, first_subtile, subtiles;
};

/// How many of a last wave's tiles are cut into halves, and how many after them into quarters; the others are
/// whole.
struct LastWaveCut {
  std::uint32_t halves, quarters;
};

/// How to cut the `rest` tiles, fewer than `blocks`, of a last incomplete wave along the features: into
/// quarters or halves where no block then gets a second piece, else as many into halves as give every block
/// one. The pieces come last, so that they begin last and end with the whole ones.
DROPLESS_HOST_DEVICE constexpr LastWaveCut last_wave_cut(std::uint32_t rest, std::uint32_t blocks) {
  if (4 * rest <= blocks) return {0, rest};
  return {2 * rest <= blocks ? rest : blocks - rest, 0};
}

class TileSchedule {
 public:
  /// feature_subtiles: of the whole output; blocks: of the grid; of_a_tile: subtiles of a whole tile, 2 or 4;
  /// raster: row tiles by tiles of that many subtiles.
  DROPLESS_HOST_DEVICE TileSchedule(TileRaster raster, std::uint32_t feature_subtiles, std::uint32_t blocks,
                                    std::uint32_t of_a_tile = tile_subtiles)
      : raster_(raster), feature_subtiles_(feature_subtiles), tile_subtiles_(of_a_tile) {
    LastWaveCut cut = last_wave_cut(raster.size() % blocks, blocks);
    if (of_a_tile == 2) cut = {cut.halves + cut.quarters, 0};
    whole_ = raster.size() - cut.halves - cut.quarters;
    halves_ = cut.halves;
  }

  /// Places, in the order in which they are computed (tile_turns.cuh).
  DROPLESS_HOST_DEVICE std::uint32_t size() const {
    return first_quarter_place() + 4 * (raster_.size() - whole_ - halves_);
  }

  /// Whether the place is a piece past its tile's last feature. False past the last place.
  DROPLESS_HOST_DEVICE bool is_empty(std::uint32_t place) const {
    return place < size() && at(place).subtiles == 0;
  }

  DROPLESS_HOST_DEVICE ScheduledTile at(std::uint32_t place) const {
    std::uint32_t tile = place, part = 0, width = tile_subtiles_;
    if (place >= first_quarter_place()) {
      const std::uint32_t quarter = place - first_quarter_place();
      tile = whole_ + halves_ + quarter / 4, part = quarter % 4, width = 1;
    } else if (place >= whole_) {
      tile = whole_ + (place - whole_) / 2, part = (place - whole_) % 2, width = tile_subtiles_ / 2;
    }
    const TileRaster::Position position = raster_.at(tile);
    const std::uint32_t first = position.column_tile * tile_subtiles_ + part * width;
    const std::uint32_t left = first < feature_subtiles_ ? feature_subtiles_ - first : 0;
    return {position.row_tile, first, left < width ? left : width};
  }

 private:
  DROPLESS_HOST_DEVICE std::uint32_t first_quarter_place() const { return whole_ + 2 * halves_; }

  TileRaster raster_;
  std::uint32_t feature_subtiles_, tile_subtiles_;
  std::uint32_t whole_, halves_;  // tiles; those after them are cut into quarters
};

}  // namespace dropless::sm90
