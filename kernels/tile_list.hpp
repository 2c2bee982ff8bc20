// From tiles per expert to the tile list: which expert and which of its tiles an entry of the list is.
#pragma once
#include <bit>

#include "dropless/row_tiles.hpp"

namespace dropless {

/// The last index i in [0, count) with begin[i] <= value, for begin ascending and begin[0] <= value. With
/// equal begins (empty ranges) the last one wins, which is the one that is not empty.
DROPLESS_HOST_DEVICE constexpr std::int32_t range_of(const std::int32_t* begin, std::int32_t count,
                                                     std::int32_t value) {
  std::int32_t low = 0, high = count;
  while (high - low > 1) {
    const std::int32_t middle = low + (high - low) / 2;
    if (begin[middle] <= value)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/// Tile `index` of expert `expert`.
struct ListedTile {
  std::int32_t expert, index;
};

/// The order of the list: by expert, but so that entries 2i and 2i + 1 are of one expert wherever they can
/// be, for blocks that share its weights. The last tile of an expert with an odd number of tiles waits for
/// the next such expert, and the two follow that expert's other tiles; one that waits in vain comes last.
struct TileOrder {
  const std::int32_t* tile_begin;    ///< [experts + 1]: tiles of the experts before each
  const std::uint32_t* odd_experts;  ///< bit e % 32 of word e / 32: expert e has an odd number of tiles
  std::int32_t experts;

  /// Entry `entry` of [0, tile_begin[experts]).
  DROPLESS_HOST_DEVICE constexpr ListedTile at(std::int32_t entry) const {
    const std::int32_t second = entry | 1;  // of the two entries
    if (second >= tile_begin[experts]) return last_tile_of_odd_expert_below(experts);
    const std::int32_t expert = range_of(tile_begin, experts, second);
    const std::int32_t begin = tile_begin[expert], tiles = tile_begin[expert + 1] - begin;
    const bool one_waits = begin % 2 == 1;
    const std::int32_t index = entry - (begin - one_waits);
    if (!one_waits || tiles % 2 == 0 || index < tiles - 1) return {expert, index};
    return index == tiles ? ListedTile{expert, tiles - 1} : last_tile_of_odd_expert_below(expert);
  }

 private:
  /// Of the nearest one, which must exist.
  DROPLESS_HOST_DEVICE constexpr ListedTile last_tile_of_odd_expert_below(std::int32_t expert) const {
    std::int32_t word = expert / 32;
    std::uint32_t odd = expert % 32 == 0 ? 0 : odd_experts[word] & ((1u << expert % 32) - 1);
    while (odd == 0) odd = odd_experts[--word];
    const std::int32_t found = word * 32 + static_cast<std::int32_t>(std::bit_width(odd)) - 1;
    return {found, tile_begin[found + 1] - tile_begin[found] - 1};
  }
};

/// 32-bit words of a TileOrder's arrays.
DROPLESS_HOST_DEVICE constexpr std::int32_t tile_order_words(std::int32_t experts) {
  return experts + 1 + (experts + 31) / 32;
}

/// Tile `index` of expert `expert`, whose `rows` rows start at `row_begin`.
DROPLESS_HOST_DEVICE constexpr RowTile row_tile(std::int32_t expert, std::int64_t row_begin,
                                                std::int64_t rows, std::int64_t index, RowTileRule rule) {
  const std::int64_t begin = row_tile_begin(rows, index, rule), end = row_tile_begin(rows, index + 1, rule);
  return {expert, static_cast<std::int32_t>(row_begin + begin), static_cast<std::int32_t>(end - begin),
          static_cast<std::int32_t>(begin)};
}

}  // namespace dropless
