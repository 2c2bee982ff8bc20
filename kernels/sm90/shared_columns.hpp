// Tiles of one expert that lie above each other need the same columns of B. Where a tile has no more k blocks
// than the ring has stages, those after it in its run find these columns where its own stages left them, and
// load A alone: half of the bytes, in runs of four. A tile that begins the next column begins with its own.
//
// So columns lie in slots of their own, as many as there are stages, which are filled in turn: wherever in
// the ring a run ends, the next one's columns begin in the slot that was filled longest ago, which is idle or
// will be first. A slot's columns may have been read later than the A part of the stage that filled it, and
// before they are written again, more must be released than the ring's own barrier says.
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

/// The loader's account of the slots that the stages it filled last go with.
class ColumnReaders {
 public:
  /// How many stages ago one was filled that goes with the columns in this slot, which are now to be
  /// written: that one must be released first. The ring's stages, as for the ring itself, or less.
  DROPLESS_HOST_DEVICE constexpr int stages_since(int slot) const {
    return one_ago_ == slot ? 1 : two_ago_ == slot ? 2 : ColumnSlots::slots;
  }

  /// A stage is filled that goes with the columns in this slot.
  DROPLESS_HOST_DEVICE constexpr void fill(int slot) { two_ago_ = one_ago_, one_ago_ = slot; }

 private:
  int one_ago_ = -1, two_ago_ = -1;
};

/// How many tiles a run has: about four, and so that runs cut a column of `height` tiles evenly, which is up
/// to 8 or 16 (tile_raster.hpp). On an H200 runs that go over into the next column lose 1 to 2 % where
/// columns have six tiles.
DROPLESS_HOST_DEVICE constexpr std::uint32_t run_length(std::uint32_t height) {
  return height % 4 == 0 ? 4 : height % 3 == 0 ? 3 : height;
}

/// Whether the tiles of an expert with so many k blocks can share columns.
DROPLESS_HOST_DEVICE constexpr bool can_share_columns(int blocks) {
  return blocks > 0 && blocks <= ColumnSlots::slots;
}

}  // namespace dropless::sm90
