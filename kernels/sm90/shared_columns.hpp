// Tiles of one expert that lie above each other need the same columns of B. Where a tile has no more k blocks
// than the ring has stages, those after it in its run find these columns where its own stages left them, and
// load A alone: half of the bytes, in runs of four. A tile of the run that begins the next column loads it.
//
// While they do, the columns stay in the stages in which the run's first tile passed, and the ring's A parts
// go on being emptied and filled. So a stage's columns may have been read later than its A part, and before
// they are written again, more must be released than the ring's own barrier says.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless::sm90 {

/// The loader's account of which columns the stages that it filled last go with, for a ring of three.
class SharedColumns {
 public:
  static constexpr int stages = 3;

  /// The tile that begins at ring stage `stage` loads columns of its own.
  DROPLESS_HOST_DEVICE constexpr void begin_run(int stage) { first_ = stage; }

  /// The ring stage that holds the columns of the run's k block `block`, below `stages`.
  DROPLESS_HOST_DEVICE constexpr int stage_of(int block) const {
    return first_ + block < stages ? first_ + block : first_ + block - stages;
  }

  /// How many stages ago one was filled that goes with the columns in ring stage `stage`, which are now to be
  /// written: that one must be released first. `stages`, as for the ring itself, or less.
  DROPLESS_HOST_DEVICE constexpr int stages_since_shared(int stage) const {
    return one_ago_ == stage ? 1 : two_ago_ == stage ? 2 : stages;
  }

  /// A stage has been filled that goes with the columns in ring stage `stage`, its own or another.
  DROPLESS_HOST_DEVICE constexpr void fill(int stage) { two_ago_ = one_ago_, one_ago_ = stage; }

 private:
  int first_ = 0, one_ago_ = -1, two_ago_ = -1;
};

/// Whether the tiles of an expert with so many k blocks can share columns.
DROPLESS_HOST_DEVICE constexpr bool can_share_columns(int blocks) {
  return blocks > 0 && blocks <= SharedColumns::stages;
}

}  // namespace dropless::sm90
