// From tiles per expert to the tile list: which expert and which of its tiles entry t of the list is.
#pragma once
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

/// Tile `index` of expert `expert`, whose `rows` rows start at `row_begin`.
DROPLESS_HOST_DEVICE constexpr RowTile row_tile(std::int32_t expert, std::int64_t row_begin,
                                                std::int64_t rows, std::int64_t index, RowTileRule rule) {
  const std::int64_t begin = row_tile_begin(rows, index, rule), end = row_tile_begin(rows, index + 1, rule);
  return {expert, static_cast<std::int32_t>(row_begin + begin), static_cast<std::int32_t>(end - begin),
          static_cast<std::int32_t>(begin)};
}

}  // namespace dropless
