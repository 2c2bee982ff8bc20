// ScatterMoE's tiles lie over the sorted list of rows without regard to experts, and a tile is computed once
// for every expert from its first row's to its last row's.
#include <fmt/format.h>

#include "policies/families.hpp"
#include "policies/metadata.hpp"

namespace dropless {
namespace {

/// One pass over the experts: a whole tile costs one expert and one more for every step of the expert number
/// inside it, so what counts are the steps that do not fall on a tile's boundary.
std::int64_t flat_rows(const BatchRows& batch, std::int64_t tile_rows) {
  const std::int64_t whole_tiles = batch.rows() / tile_rows, whole_rows = whole_tiles * tile_rows;
  // Divisions would be most of the work, and tiles are powers of two in practice.
  const bool power_of_two = (tile_rows & (tile_rows - 1)) == 0;
  const auto is_boundary = [&](std::int64_t row) {
    return (power_of_two ? row & (tile_rows - 1) : row % tile_rows) == 0;
  };
  std::int64_t tile_experts = whole_tiles, begin = 0, previous = 0, expert = 0;
  for (const std::int64_t rows : batch.rows_per_expert()) {
    if (rows > 0) {
      if (begin < whole_rows && !is_boundary(begin)) tile_experts += expert - previous;
      previous = expert;
      // The partial final tile begins in this expert.
      if (begin <= whole_rows && whole_rows < begin + rows) tile_experts += batch.experts() - expert;
      begin += rows;
    }
    ++expert;
  }
  return tile_rows * tile_experts;
}

}  // namespace

Policy make_flat(const PolicyText& text, const ModelShape&) {
  text.expect_words(1, 1);
  const std::int64_t tile_rows = text.size_from(text.word(0));
  return {
      text.text(), "ScatterMoE 0.3",
      fmt::format(
          "sum over {}-row tiles of the sorted rows of {} * (last expert - first expert + 1); in a partial "
          "final tile the last expert counts as E - 1; metadata 16 n + 8 E",
          tile_rows, tile_rows),
      [tile_rows](const BatchRows& batch) {
        return keep_all(batch, flat_rows(batch, tile_rows),
                        scattermoe_metadata_bytes(batch.rows(), batch.experts()));
      }};
}

}  // namespace dropless
