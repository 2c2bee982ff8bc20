// The order in which a persistent grid computes tiles whose cost differs from expert to expert: the expert
// with most rows first, or two experts in turn, the one with most rows left and the one with least, or, where
// some have far more rows than the others, these in turn with the others. Where blocks do not take tiles from
// a counter (tile_turns.cuh) they are dealt to and fro, so that the block that got the largest tile of one
// round gets the smallest of the next: on the skewed benchmark cases the sums of k blocks a block gets come
// within 5 % of what a queue would give it.
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

/// An order of the tiles of `experts` experts, each of which has `tiles`: in runs of `run` tiles, but those
/// of the last experts one by one, so that the blocks end at about the same time. Positions are those of the
/// experts in this order.
///
/// in_pairs: the runs of the first expert in turn with those of the last one, then those of the two next to
/// them, and so on. Of experts by their rows, tiles bound by their products then run beside tiles bound by
/// what they load and store.
struct ExpertRuns {
  std::uint32_t experts, tiles, run;
  std::uint32_t experts_in_runs;  // even where in_pairs
  bool in_pairs;

  DROPLESS_HOST_DEVICE constexpr std::uint32_t size() const {
    return experts_in_runs * runs() + (experts - experts_in_runs) * tiles;
  }

  /// The run at a place in [0, size()); every tile is in one of them.
  DROPLESS_HOST_DEVICE constexpr TileRun at(std::uint32_t place) const {
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

  /// Which of the experts is at a position.
  DROPLESS_HOST_DEVICE constexpr std::uint32_t rank_at(std::uint32_t position) const {
    return !in_pairs ? position : position % 2 == 0 ? position / 2 : experts - 1 - position / 2;
  }

 private:
  DROPLESS_HOST_DEVICE constexpr std::uint32_t runs() const { return (tiles + run - 1) / run; }
};

/// The order of all experts' tiles, by the experts' ranks (expert_rank). large: so many experts with most
/// rows have far more than the others. Their tiles, one by one and largest first, are in turn with the runs
/// of the others, smallest first: for as long as there are both, some blocks multiply while others store, and
/// all tiles of a large expert, at work at about the same time, read its rows together. Where none is large
/// the order is that of `alike`, which says how runs and singles are made.
struct ExpertTileOrder {
  ExpertRuns alike;
  std::uint32_t large = 0;

  DROPLESS_HOST_DEVICE constexpr std::uint32_t size() const {
    return large == 0 ? alike.size() : large_ones().size() + others().size();
  }

  /// The run at a place in [0, size()); every tile is in one of them.
  DROPLESS_HOST_DEVICE constexpr TileRun at(std::uint32_t place) const {
    if (large == 0) return alike.at(place);
    const std::uint32_t of_large = large_ones().size(), of_others = others().size();
    const std::uint32_t of_each = of_large < of_others ? of_large : of_others;
    const bool in_turn = place < 2 * of_each;
    if (in_turn ? place % 2 == 0 : of_large > of_others)
      return large_ones().at(in_turn ? place / 2 : place - of_each);
    const TileRun other = others().at(in_turn ? place / 2 : place - of_each);
    return {large + other.position, other.tile, other.count};
  }

  /// The rank of the expert at a position.
  DROPLESS_HOST_DEVICE constexpr std::uint32_t rank_at(std::uint32_t position) const {
    if (large == 0) return alike.rank_at(position);
    return position < large ? position : alike.experts - 1 - (position - large);
  }

 private:
  DROPLESS_HOST_DEVICE constexpr ExpertRuns large_ones() const {
    return {large, alike.tiles, 1, large, false};
  }
  /// In runs twice as long as alike ones, mostly a whole column or two: these experts have few rows, and on
  /// an H200 that gains 1 to 2 %.
  DROPLESS_HOST_DEVICE constexpr ExpertRuns others() const {
    const std::uint32_t in_runs = alike.experts_in_runs > large ? alike.experts_in_runs - large : 0;
    return {alike.experts - large, alike.tiles, 2 * alike.run, in_runs, false};
  }
};

}  // namespace dropless::sm90
