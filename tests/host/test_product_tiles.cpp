// The steps of the portable grids, walked on the CPU as the kernels walk them: every output element exactly
// once, and as many scheduled rows as the report counts.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "catch.hpp"
#include "dropless/row_tiles.hpp"
#include "mma_layout.hpp"
#include "product_tiles.hpp"

using namespace dropless;

namespace {

constexpr int tile_rows = 128, tile_columns = 256;

/// A tile of all experts' tiles, in their order.
struct PlacedTile {
  std::size_t expert;
  std::int64_t row;  ///< of all experts' rows
  std::int32_t rows;
};

std::vector<PlacedTile> tiles_of(const std::vector<std::int32_t>& rows_per_expert) {
  constexpr ExpertTiles tiles{tile_rows};
  std::vector<PlacedTile> placed;
  std::int64_t begin = 0;
  for (std::size_t e = 0; e < rows_per_expert.size(); ++e) {
    const std::int32_t rows = rows_per_expert[e];
    for (std::int32_t i = 0; i < tiles.count(rows); ++i) {
      const ExpertTile tile = tiles.at(rows, i);
      placed.push_back({e, begin + tile.expert_row, tile.rows});
    }
    begin += rows;
  }
  return placed;
}

/// How often each (row, column) of the output is computed, and the rows scheduled per column tile.
struct Walk {
  std::map<std::pair<std::int64_t, std::int64_t>, int> times;
  std::map<std::int64_t, std::int64_t> scheduled_rows;
};

Walk walk(const std::vector<std::int32_t>& rows_per_expert, const ColumnTiles& columns,
          const std::vector<std::int32_t>& part_columns) {
  Walk result;
  const std::vector<PlacedTile> tiles = tiles_of(rows_per_expert);
  const TileRaster raster{static_cast<std::uint32_t>(tiles.size()),
                          static_cast<std::uint32_t>(columns.size()), raster_group};
  for (std::uint32_t index = 0; index < raster.size(); ++index) {
    const TileRaster::Position position = raster.at(index);
    const PlacedTile& tile = tiles.at(position.row_tile);
    const std::int32_t width = part_columns[tile.expert];
    const ColumnTile column = columns.at(static_cast<std::int32_t>(position.column_tile), width);
    if (column.size <= 0) continue;
    result.scheduled_rows[position.column_tile] +=
        16 * (pieces_of_warp_row(tile.rows, 0, 2) + pieces_of_warp_row(tile.rows, 1, 2));
    for (std::int64_t row = 0; row < tile.rows; ++row)
      for (std::int64_t n = 0; n < column.size; ++n)
        ++result.times[{tile.row + row, column.part * width + column.begin + n}];
  }
  return result;
}

}  // namespace

TEST_CASE("portable steps: every element of rows x weights once, whatever the parts and widths") {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    const std::int32_t parts = 1 + static_cast<std::int32_t>(random() % 2);
    const std::int32_t widest = 1 + static_cast<std::int32_t>(random() % 300);
    std::vector<std::int32_t> rows;
    std::vector<std::int32_t> widths;
    std::int64_t elements = 0;
    for (int e = 0; e < 5; ++e) {
      rows.push_back(random() % 3 == 0 ? 0 : static_cast<std::int32_t>(random() % 300));
      widths.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(widest + 1)));
      elements += std::int64_t{rows.back()} * widths.back() * parts;
    }
    const Walk covered = walk(rows, {widest, parts, tile_columns}, widths);
    REQUIRE(static_cast<std::int64_t>(covered.times.size()) == elements);
    REQUIRE(std::all_of(covered.times.begin(), covered.times.end(),
                        [](const auto& element) { return element.second == 1; }));
  }
}

TEST_CASE("portable steps: an expert's tiles cover its rows once, as few as there must be and as even") {
  for (const std::int32_t height : {16, 128})
    for (std::int32_t rows = -1; rows <= 3000; ++rows) {
      const ExpertTiles tiles{height};
      std::int32_t next = 0, lowest = height, tallest = 0, scheduled = 0;
      for (std::int32_t i = 0; i < tiles.count(rows); ++i) {
        const ExpertTile tile = tiles.at(rows, i);
        const std::int32_t rounded = (tile.rows + 15) / 16 * 16;
        if (tile.expert_row != next || tile.rows <= 0 || tile.expert_row % 16 != 0) FAIL(rows << " rows");
        next += tile.rows;
        scheduled += rounded;
        lowest = std::min(lowest, rounded);
        tallest = std::max(tallest, rounded);
      }
      INFO(rows << " rows in tiles of " << height);
      REQUIRE(tiles.count(rows) == ceil_div(std::max(rows, 0), height));
      REQUIRE(next == std::max(rows, 0));
      REQUIRE(scheduled == scheduled_rows(next, {}));
      REQUIRE(tallest <= height);
      if (rows > 0) REQUIRE(tallest - lowest <= 16);
    }
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  const ExpertTiles tiles{tile_rows};
  const ExpertTile last = tiles.at(most, tiles.count(most) - 1);
  REQUIRE(std::int64_t{last.expert_row} + last.rows == most);
}

TEST_CASE("portable steps: scheduled rows are those that row_tiles.hpp counts") {
  const RowTileRule rule;
  const std::vector<std::int32_t> rows{0, 1, 15, 16, 17, 127, 128, 129, 300, 1000};
  std::int64_t expected = 0;
  for (const std::int32_t count : rows) expected += scheduled_rows(count, rule);
  const ColumnTiles columns{300, 1, tile_columns};
  const Walk covered = walk(rows, columns, std::vector<std::int32_t>(rows.size(), 300));
  REQUIRE(static_cast<std::int64_t>(covered.scheduled_rows.size()) == columns.size());
  for (const auto& [column_tile, scheduled] : covered.scheduled_rows) REQUIRE(scheduled == expected);
}

TEST_CASE("portable steps: every element of every gradient once") {
  constexpr std::int64_t experts = 3;
  for (const std::int64_t m : {1, 128, 300, 1152})
    for (const std::int64_t n : {1, 256, 700}) {
      const WeightGradientSteps steps{experts, m, n, tile_rows, tile_columns};
      std::vector<int> times(static_cast<std::size_t>(experts * m * n));
      for (std::uint32_t index = 0; index < steps.size(); ++index) {
        const WeightGradientStep step = steps.at(index);
        REQUIRE((step.expert < experts && step.m < m && step.n < n));
        const std::int64_t end_m = std::min<std::int64_t>(step.m + tile_rows, m),
                           end_n = std::min<std::int64_t>(step.n + tile_columns, n);
        for (std::int64_t row = step.m; row < end_m; ++row)
          for (std::int64_t column = step.n; column < end_n; ++column)
            ++times[static_cast<std::size_t>((step.expert * m + row) * n + column)];
      }
      REQUIRE(std::all_of(times.begin(), times.end(), [](int count) { return count == 1; }));
    }
}

TEST_CASE("a tile's pieces are shared out among the warp rows without gap or overlap") {
  for (int rows = 1; rows <= 128; ++rows) {
    const int first = pieces_of_warp_row(rows, 0, 2), second = pieces_of_warp_row(rows, 1, 2);
    REQUIRE(first + second == (rows + 15) / 16);
    REQUIRE((first == second || first == second + 1));
    REQUIRE(first <= 4);
  }
}

TEST_CASE("every place of a tile has one warp, and the warps of a scheduler differ in both directions") {
  std::map<std::pair<int, int>, int> times;
  for (int warp = 0; warp < 8; ++warp) {
    const WarpPlace place = warp_place(warp), other = warp_place((warp + 4) % 8);
    REQUIRE((place.row == 0 || place.row == 1));
    REQUIRE((place.column >= 0 && place.column < 4));
    REQUIRE(place.row != other.row);
    REQUIRE(std::abs(place.column - other.column) == 2);
    ++times[{place.row, place.column}];
  }
  REQUIRE(times.size() == 8);
}

TEST_CASE("one thread's passes over a stage keep the swizzle's turn") {
  const auto check = [](auto layout, int chunks_per_row) {
    for (int row = 0; row + 8 < decltype(layout)::chunks / chunks_per_row; ++row)
      for (int chunk = 0; chunk < chunks_per_row; ++chunk)
        REQUIRE(layout.slot(row + 8, chunk) == layout.slot(row, chunk) + 8 * chunks_per_row);
  };
  check(OperandStage<128, 32>{true}, 4);
  check(OperandStage<256, 32>{true}, 4);
  check(OperandStage<128, 32>{false}, 16);
  check(OperandStage<256, 32>{false}, 32);
}

TEST_CASE("one base slot serves all pieces that a warp of the portable kernel reads") {
  const auto check = [](auto layout, bool left, int first, int step) {
    for (int lane = 0; lane < 32; ++lane)
      for (int piece = 0; piece < 4; ++piece)
        for (int half = 0; half < 2; ++half) {
          const PieceChunk source = ldmatrix_source(lane, left, layout.k_inner);
          const int d = first + piece * step, k = half * 16;
          const int row = (layout.k_inner ? d : k) + source.row;
          const int chunk = (layout.k_inner ? k : d) / chunk_elements + source.chunk;
          REQUIRE(piece_slot(layout, first_piece_slot(layout, lane, left, first), step, piece, half) ==
                  layout.slot(row, chunk));
        }
  };
  for (const bool k_inner : {false, true}) {
    for (int warp_row = 0; warp_row < 2; ++warp_row)
      check(OperandStage<128, 32>{k_inner}, true, warp_row * 16, 32);
    for (int warp_column = 0; warp_column < 256; warp_column += 64)
      check(OperandStage<256, 32>{k_inner}, false, warp_column, 16);
  }
}
