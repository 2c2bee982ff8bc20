// The search of the portable products, walked on the CPU as the blocks of a grid walk it: every tile of every
// expert once for each column tile, whatever the row counts.
#include "expert_tile_search.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

#include "catch.hpp"

using namespace dropless;

namespace {

/// A warp whose lanes the CPU goes through one after the other.
struct HostWarp {
  static constexpr std::int32_t lanes = 32;

  template <class Value>
  static auto for_each_lane(Value value) {
    std::array<decltype(value(0)), lanes> values{};
    for (std::int32_t lane = 0; lane < lanes; ++lane) values[static_cast<std::size_t>(lane)] = value(lane);
    return values;
  }
  template <class Values>
  static auto at(const Values& values, std::int32_t lane) {
    return values.at(static_cast<std::size_t>(lane));
  }
  template <class Values>
  static auto own(const Values& values, std::int32_t lane) {
    return at(values, lane);
  }
  using Counts = std::array<std::uint32_t, lanes>;
  static std::uint32_t total(const Counts& values) { return inclusive_sum(values).back(); }
  static Counts inclusive_sum(Counts values) {
    for (std::size_t lane = 1; lane < values.size(); ++lane) values[lane] += values[lane - 1];
    return values;
  }
  static std::int32_t first_above(const Counts& values, std::uint32_t bound) {
    const auto found = std::find_if(values.begin(), values.end(), [&](auto value) { return value > bound; });
    return found == values.end() ? -1 : static_cast<std::int32_t>(found - values.begin());
  }
};

using RowCounts = std::vector<std::int32_t>;

std::int32_t experts_of(const RowCounts& row_count) { return static_cast<std::int32_t>(row_count.size()); }

/// All experts' tiles in their order, by a plain count.
template <int TileRows>
std::vector<PlacedTile> tiles_of(const RowCounts& row_count) {
  constexpr ExpertTiles tiles{TileRows};
  std::vector<PlacedTile> placed;
  for (std::int32_t expert = 0; expert < experts_of(row_count); ++expert) {
    const std::int32_t rows = row_count[static_cast<std::size_t>(expert)];
    for (std::int32_t i = 0; i < tiles.count(rows); ++i) placed.push_back({expert, tiles.at(rows, i)});
  }
  return placed;
}

/// What each of `blocks` blocks finds at its places of the raster, held against `tiles_of`.
template <int TileRows>
void require_found(const RowCounts& row_count, std::uint32_t column_tiles, std::uint32_t blocks) {
  using Search = ExpertTileSearch<HostWarp, TileRows>;
  const std::vector<PlacedTile> tiles = tiles_of<TileRows>(row_count);
  const std::int32_t experts = experts_of(row_count);
  REQUIRE(Search::tile_count(row_count.data(), experts) == tiles.size());
  const TileRaster raster{static_cast<std::uint32_t>(tiles.size()), column_tiles, raster_group};
  std::vector<std::uint32_t> times(raster.size());
  for (std::uint32_t block = 0; block < blocks; ++block) {
    Search search = Search::from_the_start();
    for (std::uint32_t index = block; index < raster.size(); index += blocks) {
      const TileRaster::Position position = raster.at(index);
      const PlacedTile found = search.find(row_count.data(), experts, position.row_tile);
      const PlacedTile& expected = tiles.at(position.row_tile);
      if (found.expert != expected.expert || found.tile.expert_row != expected.tile.expert_row ||
          found.tile.rows != expected.tile.rows)
        FAIL("row tile " << position.row_tile << " of " << tiles.size() << ", block " << block << " of "
                         << blocks);
      ++times[position.row_tile * column_tiles + position.column_tile];
    }
  }
  REQUIRE(std::all_of(times.begin(), times.end(), [](std::uint32_t count) { return count == 1; }));
}

void require_found(const RowCounts& row_count) {
  for (const std::uint32_t column_tiles : {1u, 3u})
    for (const std::uint32_t blocks : {1u, 7u, 132u}) {
      require_found<128>(row_count, column_tiles, blocks);
      require_found<16>(row_count, column_tiles, blocks);
    }
}

/// Empty experts before, between and behind the others, in groups that a warp looks at at once and that it
/// passes over.
RowCounts scattered(std::size_t experts, std::size_t step, std::int32_t rows) {
  RowCounts row_count(experts, 0);
  for (std::size_t expert = step / 2; expert < experts; expert += step) row_count[expert] = rows;
  return row_count;
}

}  // namespace

TEST_CASE("every tile is found once: each number of experts from 1 to 300") {
  for (std::size_t experts = 1; experts <= 300; ++experts) {
    INFO(experts << " experts");
    require_found<128>(RowCounts(experts, 1), 2, 5);
    require_found<128>(RowCounts(experts, 129), 1, 3);
    require_found<128>(scattered(experts, 1 + experts % 70, 257), 2, 2);
    require_found<128>(RowCounts(experts, 0), 2, 5);
  }
}

TEST_CASE("every tile is found once: one expert with everything, at places before and behind the others") {
  for (const std::size_t experts : {1u, 31u, 32u, 33u, 64u, 65u, 300u}) {
    const std::size_t step = experts <= 64 ? 1 : 31;
    for (std::size_t expert = 0; expert < experts; expert += step) {
      RowCounts row_count(experts, 0);
      row_count[expert] = 4000;
      INFO("expert " << expert << " of " << experts);
      require_found<128>(row_count, 2, 7);
    }
  }
}

TEST_CASE("every tile is found once: random row counts, counts below zero among them") {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    RowCounts row_count(1 + random() % (round % 3 == 0 ? 300 : 40));
    for (std::int32_t& rows : row_count) {
      const auto kind = random() % 10;
      rows = kind < 3   ? 0
             : kind < 5 ? 1
             : kind < 6 ? -static_cast<std::int32_t>(random() % 1000)
             : kind < 9 ? static_cast<std::int32_t>(random() % 300)
                        : static_cast<std::int32_t>(random() % 3000);
    }
    if (round % 5 == 0) row_count.back() = std::numeric_limits<std::int32_t>::min();
    INFO("round " << round << ", experts " << row_count.size());
    require_found(row_count);
  }
}

TEST_CASE("a search for a tile that there is not ends without rows") {
  for (const RowCounts& row_count : {RowCounts{}, RowCounts{0}, RowCounts{-5}, RowCounts{130, 0, 7},
                                     RowCounts(64, 1), scattered(300, 40, 5)}) {
    using Search = ExpertTileSearch<HostWarp, 128>;
    const std::int32_t experts = experts_of(row_count);
    const std::uint32_t tiles = Search::tile_count(row_count.data(), experts);
    Search search = Search::from_the_start();
    for (const std::uint32_t past : {0u, 1u, 8u, 100000u})
      CHECK(search.find(row_count.data(), experts, tiles + past).tile.rows == 0);
  }
}
