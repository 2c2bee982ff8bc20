// The passes of the Hopper block-sparse kernel, walked on the CPU: boxes are loaded with TMA's bounds, so
// that what lies outside a matrix reads as zero, and every verb and transpose gives the reference product
// with each output element stored once.
#include "sm90/block_passes.hpp"

#include <algorithm>
#include <array>

#include "block_product_case.hpp"
#include "dropless/row_layout.hpp"

using namespace dropless;
using namespace dropless::sm90;
using namespace dropless::test;

namespace {

using BoxValues = std::array<std::array<float, box_side>, box_side>;

void require_inside(const MatrixStack& stack, const Box& box) {
  REQUIRE((box.at[0] >= 0 && box.at[1] >= 0 && box.at[2] >= 0 && box.at[2] < stack.matrices));
}

/// Where the element (row, column) of a box lies in the stack, or -1 outside the matrix.
std::int64_t element_at(const MatrixStack& stack, const Box& box, std::int64_t row, std::int64_t column) {
  const std::int64_t x = box.at[0] + column, y = box.at[1] + row, z = box.at[2];
  return x < stack.columns && y < stack.rows ? z * stack.matrix_stride + y * stack.leading_dimension + x : -1;
}

/// The box as values over (d, k).
BoxValues load(const MatrixStack& stack, const Box& box, bool k_inner) {
  require_inside(stack, box);
  const auto* data = static_cast<const float*>(stack.data);
  BoxValues values{};
  for (std::size_t row = 0; row < box_side; ++row) {
    const std::int64_t begin = element_at(stack, box, static_cast<std::int64_t>(row), 0);
    if (begin < 0) continue;
    for (std::size_t column = 0; column < box_side; ++column)
      if (box.at[0] + static_cast<std::int64_t>(column) < stack.columns)
        (k_inner ? values[row][column] : values[column][row]) =
            data[begin + static_cast<std::int64_t>(column)];
  }
  return values;
}

/// One 64 x 64 piece of a pass: rows 64 `part` of the block row by one subtile of columns, over (m, n).
BoxValues piece_of(const BlockProduct& product, const BlockPass& pass, std::int32_t subtile,
                   std::int32_t part) {
  const std::int32_t column = subtile_column(product, pass, subtile);
  BoxValues sums{};
  for (std::int32_t index = 0; index < pass.steps; ++index) {
    const PassEntry entry = pass_entry(product, pass, index);
    const Box left_at = left_box(product, product.left.k_inner, pass, entry, index, part);
    const Box right_at = right_box(product, product.right.k_inner, entry, index, column);
    const BoxValues left = load(left_stack(product), left_at, product.left.k_inner);
    const BoxValues right = load(right_stack(product), right_at, product.right.k_inner);
    for (std::size_t m = 0; m < box_side; ++m)
      for (std::size_t n = 0; n < box_side; ++n)
        for (std::size_t k = 0; k < box_side; ++k) sums[m][n] += left[m][k] * right[n][k];
  }
  return sums;
}

void store(const BlockProduct& product, const Box& box, const BoxValues& piece, std::vector<int>& covered) {
  const MatrixStack stack = out_stack(product);
  require_inside(stack, box);
  const bool n_inner = product.out.n_inner;
  for (std::size_t row = 0; row < box_side; ++row)
    for (std::size_t column = 0; column < box_side; ++column) {
      const std::int64_t at =
          element_at(stack, box, static_cast<std::int64_t>(row), static_cast<std::int64_t>(column));
      if (at < 0) continue;
      static_cast<float*>(product.out.data)[at] = n_inner ? piece[row][column] : piece[column][row];
      ++covered[static_cast<std::size_t>(at)];
    }
}

/// What a grid of `blocks` thread blocks computes; returns how many passes were of two block rows.
int walk(const BlockProduct& product, std::uint32_t blocks, std::vector<int>& covered) {
  const TileSchedule schedule = block_schedule(product, blocks);
  int paired = 0;
  for (std::uint32_t place = 0; place < schedule.size(); ++place) {
    const CellTile tile = cell_tile(product, schedule.at(place));
    for (std::int32_t done = 0; done < tile.cells;) {
      const BlockPass pass = block_pass(product, tile, done);
      REQUIRE((pass.subtiles > 0 && pass.subtiles <= most_subtiles));
      REQUIRE(row_parts(product, pass) * box_side <= tile_rows);
      for (std::int32_t subtile = 0; subtile < pass.subtiles; ++subtile)
        for (std::int32_t part = 0; part < row_parts(product, pass); ++part)
          store(product, out_box(product, pass, subtile, part), piece_of(product, pass, subtile, part),
                covered);
      done += pass.subtiles * pass.block_rows;
      paired += pass.block_rows == 2;
    }
  }
  return paired;
}

/// Experts of uneven rows, one of them without any, each four blocks wide.
BlockTopology expert_pattern(std::int64_t block) {
  const std::vector<std::int64_t> rows{4 * block - 1, 0, 5 * block, 8 * block}, widths{4 * block};
  return block_topology(row_layout_from_counts(rows, block), widths);
}

}  // namespace

TEST_CASE("Hopper block-sparse passes give the reference product and store it once", "[block_sparse]") {
  std::uint32_t index = 0;
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (int transposes = 0; transposes < 8; ++transposes)
      for (const std::int64_t block : {64, 128})
        for (const BlockTopology& pattern :
             {random_pattern(block, 2, 3, 0.0, 1), random_pattern(block, 3, 5, 0.5, 2),
              random_pattern(block, 3, 1, 1.0, 3)}) {
          const std::int64_t dense[] = {37, 130, 328};
          const std::uint32_t blocks = index % 2 == 0 ? 3 : 132;
          INFO(static_cast<int>(verb)
               << " block " << block << " transposes " << transposes << " blocks " << pattern.nonzero_blocks);
          check_block_product(verb, pattern, transposes, dense[index++ % 3],
                              [&](const BlockProduct& product, std::vector<int>& covered) {
                                walk(product, blocks, covered);
                              });
        }
}

TEST_CASE("Hopper block-sparse passes take alike block rows together", "[block_sparse]") {
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (const int transposes : {0, 7})
      for (const std::int64_t block : {64, 128})
        for (const BlockTopology& pattern : {expert_pattern(block), random_pattern(block, 17, 8, 0.0, 1),
                                             random_pattern(block, 17, 8, 0.02, 2)}) {
          INFO(static_cast<int>(verb)
               << " block " << block << " transposes " << transposes << " blocks " << pattern.nonzero_blocks);
          check_block_product(verb, pattern, transposes, 37,
                              [&](const BlockProduct& product, std::vector<int>& covered) {
                                CHECK((walk(product, 7, covered) > 0) == (block == 64));
                              });
        }
}

TEST_CASE("Hopper block-sparse passes end at the counts", "[block_sparse]") {
  const BlockTopology pattern = random_pattern(64, 5, 4, 0.0, 1);
  const BlockCounts counts{3, 9};  // the rest of the arrays is not to be read
  std::vector<std::int32_t> offsets = pattern.offsets, rows = pattern.row_indices,
                            columns = pattern.column_indices;
  std::fill(offsets.begin() + counts.block_rows + 1, offsets.end(), -1);
  std::fill(rows.begin() + counts.nonzero_blocks, rows.end(), -1);
  std::fill(columns.begin() + counts.nonzero_blocks, columns.end(), -1);
  offsets[static_cast<std::size_t>(counts.block_rows)] = counts.nonzero_blocks;
  BlockProduct product;
  product.block = 64;
  product.rows = 5 * 64;
  product.columns = 4 * 64;
  product.depth = 64;
  product.nonzero_blocks = pattern.nonzero_blocks;
  product.offsets = offsets.data();
  product.row_indices = rows.data();
  product.column_indices = product.entry_columns = columns.data();
  product.counts = &counts;
  for (const bool sparse_output : {true, false}) {
    product.sparse_output = sparse_output;
    const TileSchedule schedule = block_schedule(product, 4);
    std::int32_t cells = 0;
    for (std::uint32_t place = 0; place < schedule.size(); ++place) {
      const CellTile tile = cell_tile(product, schedule.at(place));
      for (std::int32_t done = 0; done < tile.cells;) {
        const BlockPass pass = block_pass(product, tile, done);
        REQUIRE((pass.block_row >= 0 && pass.block_row + pass.block_rows <= counts.block_rows));
        done += pass.subtiles * pass.block_rows;
        cells += pass.subtiles * pass.block_rows;
      }
    }
    CHECK(cells == (sparse_output ? counts.nonzero_blocks : counts.block_rows * 4));
  }
}

TEST_CASE("the raster of a sparse output keeps every tile", "[block_sparse]") {
  for (const std::int64_t block : {64, 128})
    for (const BlockTopology& pattern :
         {expert_pattern(block), random_pattern(block, 16, 8, 0.0, 1), random_pattern(block, 40, 8, 0.01, 2),
          random_pattern(block, 40, 7, 0.0, 1)}) {
      BlockProduct product;
      product.sparse_output = true;
      product.block = static_cast<std::int32_t>(block);
      product.rows = pattern.block_rows * block;
      product.nonzero_blocks = pattern.nonzero_blocks;
      product.offsets = pattern.offsets.data();
      product.row_indices = pattern.row_indices.data();
      const std::int64_t tiles = ceil_div(pattern.nonzero_blocks, blocks_in_tile(product).value());
      std::vector<int> seen(static_cast<std::size_t>(tiles), 0);
      for (std::int32_t tile = 0; tile < tiles; ++tile)
        ++seen[static_cast<std::size_t>(rastered_tile(product, tile))];
      CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
    }
}
