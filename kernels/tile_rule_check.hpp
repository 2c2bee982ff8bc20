// The check of a tile rule that every builder of a tile list makes.
#pragma once
#include "dropless/error.hpp"
#include "dropless/row_tiles.hpp"

namespace dropless {

inline void check_tile_rule(RowTileRule rule) {
  if (rule.granule < 1) throw Error("tile_rule.granule", std::to_string(rule.granule), "1 or more");
  if (rule.tile_rows < 1 || rule.tile_rows % rule.granule != 0)
    throw Error("tile_rule.tile_rows", std::to_string(rule.tile_rows), "a positive multiple of the granule");
}

}  // namespace dropless
