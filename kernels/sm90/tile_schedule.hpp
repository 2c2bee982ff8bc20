// Which tiles a persistent grid computes in which order: those of the complete waves whole, those of the
// last, incomplete wave cut along the features, so that more blocks share it.
#pragma once
#include "tile_raster.hpp"

namespace dropless::sm90 {

constexpr std::uint32_t tile_subtiles = 4;  // of 64 features, in a whole tile of a product

/// A tile or a piece of one: a row tile of the list by `subtiles` subtiles from `first_subtile`; 0 where the
/// tile ends before the piece.
struct ScheduledTile {
  std::uint32_t row_tile, first_subtile, subtiles;
};

class TileSchedule {
 public:
  /// feature_subtiles: of the whole output; blocks: of the grid; of_a_tile: subtiles of a whole tile, 2 or 4;
  /// raster: row tiles by tiles of that many subtiles.
  DROPLESS_HOST_DEVICE TileSchedule(TileRaster raster, std::uint32_t feature_subtiles, std::uint32_t blocks,
                                    std::uint32_t of_a_tile = tile_subtiles)
      : raster_(raster),
        feature_subtiles_(feature_subtiles),
        tile_subtiles_(of_a_tile),
        whole_(raster.size() - raster.size() % blocks),
        parts_(last_wave_parts(raster.size() % blocks, blocks)) {
    if (parts_ > of_a_tile) parts_ = of_a_tile;
  }

  /// Places, in the order in which they are computed (tile_turns.cuh).
  DROPLESS_HOST_DEVICE std::uint32_t size() const { return whole_ + (raster_.size() - whole_) * parts_; }

  /// Whether the place is a piece past its tile's last feature. False past the last place.
  DROPLESS_HOST_DEVICE bool is_empty(std::uint32_t place) const {
    return place < size() && at(place).subtiles == 0;
  }

  DROPLESS_HOST_DEVICE ScheduledTile at(std::uint32_t place) const {
    const bool piece = place >= whole_;
    const std::uint32_t parts = piece ? parts_ : 1, width = tile_subtiles_ / parts;
    const std::uint32_t part = piece ? (place - whole_) % parts : 0;
    const TileRaster::Position tile = raster_.at(piece ? whole_ + (place - whole_) / parts : place);
    const std::uint32_t first = tile.column_tile * tile_subtiles_ + part * width;
    const std::uint32_t left = first < feature_subtiles_ ? feature_subtiles_ - first : 0;
    return {tile.row_tile, first, left < width ? left : width};
  }

 private:
  TileRaster raster_;
  std::uint32_t feature_subtiles_, tile_subtiles_;
  std::uint32_t whole_;  // tiles of the complete waves
  std::uint32_t parts_;  // pieces of each later tile: 1, 2 or 4
};

}  // namespace dropless::sm90
