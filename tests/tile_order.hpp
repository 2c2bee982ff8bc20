// The order of the tile list by a plain walk over the experts, to hold the closed form of the builders
// against.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace dropless::test {

/// (expert, tile of the expert) of every entry, for experts with these numbers of tiles.
inline std::vector<std::pair<std::int32_t, std::int32_t>> listed_tiles(
    const std::vector<std::int32_t>& tiles_per_expert) {
  std::vector<std::pair<std::int32_t, std::int32_t>> list, waiting;
  for (std::int32_t expert = 0; expert < static_cast<std::int32_t>(tiles_per_expert.size()); ++expert) {
    const std::int32_t tiles = tiles_per_expert[static_cast<std::size_t>(expert)];
    for (std::int32_t tile = 0; tile < tiles / 2 * 2; ++tile) list.emplace_back(expert, tile);
    if (tiles % 2 == 1) waiting.emplace_back(expert, tiles - 1);
    if (waiting.size() == 2) {
      list.insert(list.end(), waiting.begin(), waiting.end());
      waiting.clear();
    }
  }
  list.insert(list.end(), waiting.begin(), waiting.end());
  return list;
}

}  // namespace dropless::test
