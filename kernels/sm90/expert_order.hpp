// The order in which a persistent grid computes tiles whose cost differs from expert to expert: experts with
// more rows first, or of two experts at a time. Where blocks do not take them from a counter (tile_turns.cuh)
// they are dealt to and fro, so that the block that got the largest tile of one round gets the smallest of
// the next: on the skewed benchmark cases the sums of k blocks a block gets come within 4 % of what a queue
// would give it.
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

/// A tile of the expert that has rank `rank`.
struct RankedTile {
  std::uint32_t rank, tile;
};

/// The tile at a place, where every expert has `tiles` of them. in_pairs: the tiles of the expert with most
/// rows in turn with those of the expert with least, then those of the two next to them, and so on, so that
/// tiles bound by their products run beside tiles bound by what they load and store.
DROPLESS_HOST_DEVICE constexpr RankedTile ranked_tile(std::uint32_t place, std::uint32_t tiles,
                                                      std::uint32_t experts, bool in_pairs) {
  const std::uint32_t pair = place / (2 * tiles), inside = place % (2 * tiles);
  if (!in_pairs) return {place / tiles, place % tiles};
  if (pair == experts / 2) return {pair, inside};  // one that has no other
  return {inside % 2 == 0 ? pair : experts - 1 - pair, inside / 2};
}

}  // namespace dropless::sm90
