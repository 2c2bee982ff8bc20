// Tiles that share columns: whatever follows whatever in the ring, no columns are written while a tile that
// still needs them may not have read them, and every tile reads its own expert's.
#include "sm90/shared_columns.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "catch.hpp"

using dropless::sm90::can_share_columns;
using dropless::sm90::ColumnSlots;
using dropless::sm90::next_column_slot;
using dropless::sm90::run_length;

namespace {

struct Tile {
  int blocks;
  bool shares;
};

/// The loader and the slowest reader that the ring allows it, stage by stage. What lies in a slot is the
/// number of the run and the k block.
void require_safe(const std::vector<Tile>& tiles) {
  constexpr int stages = ColumnSlots::slots;
  struct Columns {
    int run = -1, block = -1;
    int filled_at = -stages;     // the stage it came with
    int last_read_by = -stages;  // the latest stage that needs it
  };
  std::vector<Columns> slots(stages);
  ColumnSlots columns;
  int filled = 0, run = -1;
  for (const Tile& tile : tiles) {
    if (!tile.shares) {
      ++run;
      columns.begin_run(tile.blocks);
    }
    int slot = columns.first();
    for (int block = 0; block < tile.blocks; ++block, slot = next_column_slot(slot)) {
      Columns& here = slots[static_cast<std::size_t>(slot)];
      if (!tile.shares) {
        REQUIRE(here.last_read_by <= filled - stages);  // the ring's barrier has waited for that one
        for (const Columns& other : slots) REQUIRE(here.filled_at <= other.filled_at);
        here = {run, block, filled, filled};
      }
      REQUIRE(here.run == run);
      REQUIRE(here.block == block);
      here.last_read_by = filled;
      ++filled;
    }
  }
}

}  // namespace

TEST_CASE("columns are kept until the last tile that shares them: three runs of any length") {
  const std::vector<int> blocks{1, 2, 3, 4, 7};
  const auto append = [](std::vector<Tile>& tiles, int tile_blocks, int length) {
    for (int i = 0; i < length; ++i) tiles.push_back({tile_blocks, i > 0});
  };
  for (const int first : blocks)
    for (const int second : blocks)
      for (const int third : blocks)
        for (int a = 1; a <= (can_share_columns(first) ? 7 : 1); ++a)
          for (int b = 1; b <= (can_share_columns(second) ? 7 : 1); ++b)
            for (int begin = 0; begin < ColumnSlots::slots; ++begin) {
              std::vector<Tile> tiles(static_cast<std::size_t>(begin), Tile{1, false});
              append(tiles, first, a);
              append(tiles, second, b);
              append(tiles, third, 1);
              require_safe(tiles);
            }
}

TEST_CASE("columns are kept until the last tile that shares them: random runs") {
  std::mt19937 random(11);
  for (int round = 0; round < 20000; ++round) {
    std::vector<Tile> tiles;
    for (int i = 0; i < 12; ++i) {
      const int blocks = static_cast<int>(random() % 6);  // 0: an expert without rows
      const int length = can_share_columns(blocks) ? 1 + static_cast<int>(random() % 5) : 1;
      for (int tile = 0; tile < length; ++tile) tiles.push_back({blocks, tile > 0});
    }
    require_safe(tiles);
  }
}

TEST_CASE("experts without rows, or with more k blocks than stages, share nothing") {
  CHECK_FALSE(can_share_columns(0));
  CHECK(can_share_columns(1));
  CHECK(can_share_columns(ColumnSlots::slots));
  CHECK_FALSE(can_share_columns(ColumnSlots::slots + 1));
}

TEST_CASE("runs cut the column of a whole group evenly, into three to seven tiles where it has as many") {
  for (const std::uint32_t height : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 16u}) {
    const std::uint32_t run = run_length(height);
    CHECK(height % run == 0);
    CHECK(run >= std::min(height, 3u));
    CHECK(run <= 7);
  }
}
