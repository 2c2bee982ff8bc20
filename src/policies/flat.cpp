// ScatterMoE's tiles lie over the sorted list of rows without regard to experts, and a tile is computed once
// for every expert from its first row's to its last row's.
#include <fmt/format.h>

#include "policies/families.hpp"
#include "policies/metadata.hpp"

namespace dropless {
namespace {

/// A single tile, whole or partial: all that counts is its first expert and its last.
std::int64_t flat_rows_of_one_tile(const BatchRows& batch, std::int64_t tile_rows) {
  const ArrayView<const std::int64_t> rows = batch.rows_per_expert();
  std::size_t first = 0, last = rows.size() - 1;
  while (rows[first] == 0) ++first;
  if (batch.rows() == tile_rows)
    while (rows[last] == 0) --last;
  return tile_rows * static_cast<std::int64_t>(last - first + 1);
}

/// One pass over the experts: a whole tile costs one expert and one more for every step of the expert number
/// inside it. The steps add up to the last number less the first one; those on a tile's boundary, which are
/// few, are taken off again.
std::int64_t flat_rows(const BatchRows& batch, std::int64_t tile_rows) {
  if (batch.rows() == 0) return 0;
  if (batch.rows() <= tile_rows) return flat_rows_of_one_tile(batch, tile_rows);
  const std::int64_t whole_tiles = batch.rows() / tile_rows, whole_rows = whole_tiles * tile_rows;
  // Divisions would be most of the work, and tiles are powers of two in practice.
  const bool power_of_two = (tile_rows & (tile_rows - 1)) == 0;
  const auto is_boundary = [&](std::int64_t row) {
    return (power_of_two ? row & (tile_rows - 1) : row % tile_rows) == 0;
  };
  const std::int64_t* const rows_per_expert = batch.rows_per_expert().data();
  std::int64_t begin = 0, first = 0, last = -1, boundary_steps = 0, partial_tile_experts = 0;
  for (std::int64_t expert = 0; expert < batch.experts(); ++expert) {
    const std::int64_t rows = rows_per_expert[expert];
    if (is_boundary(begin) && rows > 0 && begin < whole_rows) {
      if (last < 0)
        first = expert;
      else
        boundary_steps += expert - last;
    }
    if (begin + rows > whole_rows) {
      if (begin < whole_rows) last = expert;
      partial_tile_experts = batch.experts() - expert;
      break;
    }
    last = rows > 0 ? expert : last;
    begin += rows;
  }
  const std::int64_t steps = whole_tiles > 0 ? last - first - boundary_steps : 0;
  return tile_rows * (whole_tiles + steps + partial_tile_experts);
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
      },
      tile_rows};
}

}  // namespace dropless
