// Which expert's tile, and which rows of it, a tile of all experts' tiles is: found from the row counts
// alone, 32 experts at a time. A warp searches as one; what its lanes do together is a parameter, so that the
// CPU can test the search with 32 lanes of its own.
#pragma once
#include "product_tiles.hpp"

namespace dropless {

/// Tile `tile` of expert `expert`; without rows where there is no such tile.
struct PlacedTile {
  std::int32_t expert = 0;
  ExpertTile tile{};
};

/// A search whose calls come in raster order: the row tiles of a group again and again, then the next group.
/// Counts below zero are empty experts. `Warp` has 32 lanes, and of values of all lanes: for_each_lane(f)
/// makes f(lane); own(values, lane) is the value of the lane that asks, at(values, lane) that of any lane;
/// total; inclusive_sum over the lanes up to each; first_above(values, bound): the first lane above it, or
/// -1.
template <class Warp, int TileRows>
class ExpertTileSearch {
 public:
  ExpertTileSearch() = default;  // shared memory has no initial values
  DROPLESS_HOST_DEVICE static ExpertTileSearch from_the_start() {
    ExpertTileSearch search;
    search.first_expert_ = 0;
    search.tiles_before_ = 0;
    return search;
  }

  /// The tiles of all experts.
  DROPLESS_HOST_DEVICE static std::uint32_t tile_count(const std::int32_t* row_count, std::int32_t experts) {
    return Warp::total(Warp::for_each_lane([&](std::int32_t lane) {
      std::uint32_t tiles = 0;
      for (std::int32_t expert = lane; expert < experts; expert += Warp::lanes)
        tiles += tiles_of(row_count[expert]);
      return tiles;
    }));
  }

  /// Tile `row_tile`, whose group of the raster is not before that of the last call.
  DROPLESS_HOST_DEVICE PlacedTile find(const std::int32_t* row_count, std::int32_t experts,
                                       std::uint32_t row_tile) {
    const std::uint32_t group_begin = row_tile - row_tile % raster_group;
    std::int32_t first = first_expert_;
    std::uint32_t before = tiles_before_;
    while (first < experts) {
      const auto rows = Warp::for_each_lane(
          [&](std::int32_t lane) { return first + lane < experts ? row_count[first + lane] : 0; });
      // Of the experts up to each lane's.
      const auto tiles = Warp::inclusive_sum(
          Warp::for_each_lane([&](std::int32_t lane) { return tiles_of(Warp::own(rows, lane)); }));
      const std::int32_t chosen = Warp::first_above(tiles, row_tile - before);
      if (chosen >= 0) {
        const std::int32_t expert_rows = Warp::at(rows, chosen);
        const std::uint32_t begin = before + Warp::at(tiles, chosen) - tiles_of(expert_rows);
        return {first + chosen,
                ExpertTiles{TileRows}.at(expert_rows, static_cast<std::int32_t>(row_tile - begin))};
      }
      first += Warp::lanes;
      before += Warp::at(tiles, Warp::lanes - 1);
      if (before <= group_begin) {
        first_expert_ = first;
        tiles_before_ = before;
      }
    }
    return {};  // there are fewer rows than when the walk began: nothing, rather than a search without end
  }

 private:
  DROPLESS_HOST_DEVICE static std::uint32_t tiles_of(std::int32_t expert_rows) {
    return static_cast<std::uint32_t>(ExpertTiles{TileRows}.count(expert_rows));
  }

  // Where a search begins: the experts before this one have `tiles_before_` tiles, all in groups that are
  // done.
  std::int32_t first_expert_;
  std::uint32_t tiles_before_;
};

}  // namespace dropless
