// Tiles of one expert that lie above each other need the same columns of B. Where a tile has no more k blocks
// than the ring has stages, those after it in its run find these columns where its own stages left them, and
// load A alone: half of the bytes, in runs of four. A tile that begins the next column begins with its own.
//
// So columns lie in slots of their own, as many as there are stages, which are filled in turn: wherever in
// the ring a run ends, the next one's columns begin in the slot that was filled longest ago, which is idle or
// will be first. The ring's own barrier also says when a slot may be filled: fewer stages than there are
// slots are unread then, and the last of them goes with the slot before this one, the one before it with the
// same slot or the one before that, and so on; none goes with this one.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless::sm90 {

/// Which slots the columns of a run's tiles lie in; the loader and the consumers count alike. For a ring of
/// three stages.
class ColumnSlots {
 public:
  static constexpr int slots = 3;

  /// The next tile, of `blocks` k blocks, has columns of its own.
  DROPLESS_HOST_DEVICE constexpr void begin_run(int blocks) {
    first_ = next_;
    next_ = (first_ + blocks) % slots;
  }
  /// The first one, of k block 0.
  DROPLESS_HOST_DEVICE constexpr int first() const { return first_; }

 private:
  int first_ = 0, next_ = 0;
};

/// The slot after this one.
DROPLESS_HOST_DEVICE constexpr int next_column_slot(int slot) {
  return slot + 1 == ColumnSlots::slots ? 0 : slot + 1;
}

/// How many tiles a run has: four where columns of `height` tiles, a whole group's of the raster, can be cut
/// into fours, and else three or a whole column. height is up to 8 or 16 (tile_raster.hpp). On an H200 runs
/// that end inside a column and begin inside the next one lose 1 to 2 % where columns have six tiles.
DROPLESS_HOST_DEVICE constexpr std::uint32_t run_length(std::uint32_t height) {
  return height % 4 == 0 ? 4 : height % 3 == 0 ? 3 : height;
}

/// Whether the tiles of an expert with so many k blocks can share columns.
DROPLESS_HOST_DEVICE constexpr bool can_share_columns(int blocks) {
  return blocks > 0 && blocks <= ColumnSlots::slots;
}

}  // namespace dropless::sm90
