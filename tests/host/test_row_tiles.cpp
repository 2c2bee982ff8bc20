// How an expert's rows are cut into tiles, exhaustively for small experts and at the edges of 64 bits.
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "dropless/row_tiles.hpp"

using namespace dropless;

namespace {
const std::vector<RowTileRule> rules = {{128, 16}, {128, 128}, {256, 64}, {192, 8},
                                        {64, 64},  {64, 1},    {16, 16},  {1, 1}};
}

TEST_CASE(
    "row tiles: every row is covered once, no tile is empty or too tall, all but the last are whole "
    "granules") {
  for (const RowTileRule rule : rules) {
    for (std::int64_t rows = 0; rows <= 2000; ++rows) {
      const std::int64_t tiles = row_tile_count(rows, rule);
      std::int64_t covered = 0, scheduled = 0, tallest = 0, shortest_full = tallest_tile_rows(rule);
      bool sound = row_tile_begin(rows, 0, rule) == 0 && row_tile_begin(rows, tiles, rule) == rows;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const std::int64_t begin = row_tile_begin(rows, tile, rule),
                           end = row_tile_begin(rows, tile + 1, rule);
        const std::int64_t height = round_up(end - begin, rule.granule);
        sound = sound && begin == covered && end > begin && end - begin <= tallest_tile_rows(rule);
        sound = sound && (tiles <= 2 || end - begin <= stretched_tile_rows(rule));
        sound = sound && (tile + 1 == tiles || (end - begin) % rule.granule == 0);
        covered = end;
        scheduled += height;
        tallest = std::max(tallest, height);
        shortest_full = std::min(shortest_full, height);
      }
      INFO(rows << " rows in tiles of " << rule.tile_rows << " by " << rule.granule);
      REQUIRE(sound);
      REQUIRE(covered == rows);
      REQUIRE(scheduled == scheduled_rows(rows, rule));
      // Nearly equal heights: no two tiles differ by more than a granule.
      REQUIRE((tiles == 0 || tallest - shortest_full <= rule.granule));
    }
  }
}

TEST_CASE(
    "row tiles: one tile fewer where the others need not grow by more than an eighth, or to one or "
    "two by a quarter") {
  const RowTileRule rule{128, 16};
  CHECK(tallest_tile_rows(rule) == 160);
  CHECK(stretched_tile_rows(rule) == 144);
  CHECK(row_tile_count(160, rule) == 1);
  CHECK(row_tile_count(161, rule) == 2);
  CHECK(row_tile_count(256, rule) == 2);
  CHECK(row_tile_count(320, rule) == 2);
  CHECK(row_tile_count(321, rule) == 3);
  CHECK(row_tile_count(432, rule) == 3);
  CHECK(row_tile_count(433, rule) == 4);
  CHECK(row_tile_count(1025, rule) == 8);
  CHECK(row_tile_count(1152, rule) == 8);
  CHECK(row_tile_count(1153, rule) == 9);
  CHECK(tallest_tile_rows({16, 16}) == 16);
  CHECK(stretched_tile_rows({16, 16}) == 16);
}

TEST_CASE("row tiles: the bound holds for every split of the rows and is reached") {
  for (const RowTileRule rule : {RowTileRule{2, 1}, RowTileRule{3, 1}, RowTileRule{4, 2}}) {
    for (std::int64_t rows = 0; rows <= 14; ++rows) {
      for (std::int64_t experts = 1; experts <= 5; ++experts) {
        // All splits of the rows over the experts, as numbers in base rows + 1.
        std::int64_t most = 0, splits = 1;
        for (std::int64_t expert = 0; expert < experts; ++expert) splits *= rows + 1;
        for (std::int64_t split = 0; split < splits; ++split) {
          std::int64_t sum = 0, tiles = 0, digits = split;
          for (std::int64_t expert = 0; expert < experts; ++expert, digits /= rows + 1) {
            sum += digits % (rows + 1);
            tiles += row_tile_count(digits % (rows + 1), rule);
          }
          if (sum == rows) most = std::max(most, tiles);
        }
        INFO(rows << " rows over " << experts << " experts in tiles of " << rule.tile_rows);
        REQUIRE(row_tile_bound(rows, experts, rule) == most);
      }
    }
  }
}

TEST_CASE("row tiles: rows past 2^31") {
  const RowTileRule rule{128, 16};
  const std::int64_t rows = (std::int64_t{1} << 37) + 5, tiles = row_tile_count(rows, rule);
  CHECK(tiles == std::int64_t{1} << 30);
  CHECK(scheduled_rows(rows, rule) == (std::int64_t{1} << 37) + 16);
  for (const std::int64_t tile : {std::int64_t{0}, tiles / 2, tiles - 1}) {
    const std::int64_t begin = row_tile_begin(rows, tile, rule), end = row_tile_begin(rows, tile + 1, rule);
    CHECK(end > begin);
    CHECK(end - begin <= stretched_tile_rows(rule));
  }
}
