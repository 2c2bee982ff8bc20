// The order in which a persistent grid computes tiles whose cost differs from expert to expert: the expert
// with most rows first, or two experts in turn, the one with most rows left and the one with least. Where
// blocks do not take them from a counter (tile_turns.cuh) they are dealt to and fro, so that the block that
// got the largest tile of one round gets the smallest of the next: on the skewed benchmark cases the sums of
// k blocks a block gets come within 5 % of what a queue would give it.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless::sm90 {

/// How many experts come before this one: those with more rows, and of equals those with a lower index. The
/// ranks of all experts are 0 .. experts - 1.
DROPLESS_HOST_DEVICE constexpr std::int32_t expert_rank(const std::int32_t* rows_per_expert,
                                                        std::int32_t experts, std::int32_t expert) {
  const std::int32_t rows = rows_per_expert[expert];
  std::int32_t rank = 0;
  for (std::int32_t other = 0; other < experts; ++other)
    rank += rows_per_expert[other] > rows || (rows_per_expert[other] == rows && other < expert);
  return rank;
}

/// The place that a block of a grid of `blocks` computes in round `round`: even rounds are dealt in ascending
/// order of the blocks, odd ones in descending order. May lie past the last place.
DROPLESS_HOST_DEVICE constexpr std::uint32_t dealt_place(std::uint32_t round, std::uint32_t block,
                                                         std::uint32_t blocks) {
  return round * blocks + (round % 2 == 0 ? block : blocks - 1 - block);
}

/// Tiles that one block computes one after the other: `count` of the expert at `position`, from `tile` on.
struct TileRun {
  std::uint32_t position, tile, count;
};

/// The order of the tiles of all experts, each of which has `tiles`: runs of `run` tiles, and for the last
/// experts single ones, so that the blocks end at about the same time. Positions are those of the experts in
/// this order.
///
/// in_pairs: the runs of the expert with most rows in turn with those of the one with least, then those of
/// the two next to them, and so on, so that tiles bound by their products run beside tiles bound by what
/// they load and store.
///
/// large: so many experts with most rows have far more than the others, and in_pairs does not count. Their
/// tiles, one by one and largest first, in turn with the runs of the others, smallest first: for as long as
/// there are both, some blocks multiply while others store, and all tiles of a large expert, at work at
/// about the same time, read its rows together.
struct TileOrder {
  std::uint32_t experts, tiles, run;
  std::uint32_t experts_in_runs;  // even where in_pairs
  bool in_pairs;
  std::uint32_t large = 0;

  DROPLESS_HOST_DEVICE constexpr TileOrder with_large(std::uint32_t count) const {
    return {experts, tiles, run, experts_in_runs, in_pairs, count};
  }

  DROPLESS_HOST_DEVICE constexpr std::uint32_t size() const {
    return large == 0 ? size_of_equals() : large_ones().size_of_equals() + others().size_of_equals();
  }

  /// The run at a place in [0, size()); every tile is in one of them.
  DROPLESS_HOST_DEVICE constexpr TileRun at(std::uint32_t place) const {
    if (large == 0) return at_of_equals(place);
    const std::uint32_t of_large = large_ones().size_of_equals(), of_others = others().size_of_equals();
    const std::uint32_t of_each = of_large < of_others ? of_large : of_others;
    const bool in_turn = place < 2 * of_each;
    if (in_turn ? place % 2 == 0 : of_large > of_others)
      return large_ones().at_of_equals(in_turn ? place / 2 : place - of_each);
    const TileRun other = others().at_of_equals(in_turn ? place / 2 : place - of_each);
    return {large + other.position, other.tile, other.count};
  }

  /// The rank (expert_rank) of the expert at a position.
  DROPLESS_HOST_DEVICE constexpr std::uint32_t rank_at(std::uint32_t position) const {
    if (large > 0) return position < large ? position : experts - 1 - (position - large);
    return !in_pairs ? position : position % 2 == 0 ? position / 2 : experts - 1 - position / 2;
  }

 private:
  DROPLESS_HOST_DEVICE constexpr std::uint32_t runs() const { return (tiles + run - 1) / run; }

  DROPLESS_HOST_DEVICE constexpr TileOrder large_ones() const { return {large, tiles, 1, large, false}; }
  DROPLESS_HOST_DEVICE constexpr TileOrder others() const {
    return {experts - large, tiles, run, experts_in_runs > large ? experts_in_runs - large : 0, false};
  }

  DROPLESS_HOST_DEVICE constexpr std::uint32_t size_of_equals() const {
    return experts_in_runs * runs() + (experts - experts_in_runs) * tiles;
  }
  DROPLESS_HOST_DEVICE constexpr TileRun at_of_equals(std::uint32_t place) const {
    const std::uint32_t places_in_runs = experts_in_runs * runs();
    const bool single = place >= places_in_runs;
    const std::uint32_t begin = single ? experts_in_runs : 0, length = single ? 1 : run;
    const std::uint32_t among = single ? place - places_in_runs : place;
    const std::uint32_t group = (in_pairs ? 2 : 1) * (single ? tiles : runs());
    const std::uint32_t first = begin + among / group * (in_pairs ? 2 : 1), inside = among % group;
    const bool two = in_pairs && first + 1 < experts;  // the last one may have no other
    const std::uint32_t tile = (two ? inside / 2 : inside) * length, left = tiles - tile;
    return {first + (two ? inside % 2 : 0), tile, left < length ? left : length};
  }
};

}  // namespace dropless::sm90
