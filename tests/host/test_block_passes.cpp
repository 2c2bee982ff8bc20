// The passes of the Hopper block-sparse kernel, walked on the CPU: boxes are loaded with TMA's bounds, so
// that what lies outside a matrix reads as zero, and every verb and transpose gives the reference product
// with each output element stored once.
#include "sm90/block_passes.hpp"

#include <array>

#include "block_product_case.hpp"

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
    const BlockPassStep step = block_pass_step(product, pass, index);
    const Box left_box =
        operand_box(product.left.k_inner, step.left_row + part * box_side, step.left_k, step.left_block);
    const Box right_box = operand_box(product.right.k_inner, column, step.right_k, 0);
    const BoxValues left = load(left_stack(product), left_box, product.left.k_inner);
    const BoxValues right = load(right_stack(product), right_box, product.right.k_inner);
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

/// What a grid of `blocks` thread blocks computes.
void walk(const BlockProduct& product, std::uint32_t blocks, std::vector<int>& covered) {
  const TileSchedule schedule = block_schedule(product, blocks);
  for (std::uint32_t place = 0; place < schedule.size(); ++place) {
    const ScheduledTile tile = schedule.at(place);
    for (std::int32_t done = 0; done < static_cast<std::int32_t>(tile.subtiles);) {
      const BlockPass pass = block_pass(product, tile, done);
      REQUIRE((pass.subtiles > 0 && pass.subtiles <= tile_subtiles));
      for (std::int32_t subtile = 0; subtile < pass.subtiles; ++subtile)
        for (std::int32_t part = 0; part < product.block / box_side; ++part)
          store(product, out_box(product, pass, subtile, part), piece_of(product, pass, subtile, part),
                covered);
      done += pass.subtiles;
    }
  }
}

}  // namespace

TEST_CASE("Hopper block-sparse passes give the reference product and store it once", "[block_sparse]") {
  const ProductExtents shapes[] = {{2, 3, 37}, {1, 5, 130}, {3, 1, 328}};
  std::uint32_t index = 0;
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (int transposes = 0; transposes < 8; ++transposes)
      for (const double sparsity : {0.0, 0.5, 1.0})
        for (const std::int64_t block : {64, 128}) {
          const ProductExtents& shape = shapes[index++ % 3];
          const std::uint32_t blocks = index % 2 == 0 ? 3 : 132;
          INFO(static_cast<int>(verb) << " block " << block << " transposes " << transposes << " dense "
                                      << shape.dense << " sparsity " << sparsity);
          check_block_product(verb, block, transposes, shape, sparsity,
                              [&](const BlockProduct& product, std::vector<int>& covered) {
                                walk(product, blocks, covered);
                              });
        }
}

TEST_CASE("Hopper block-sparse passes end at the counts", "[block_sparse]") {
  const BlockCounts counts{3, 7};
  BlockProduct product;
  product.counts = &counts;
  product.nonzero_blocks = 20;
  product.rows = product.columns = 5 * 128;
  for (const std::int32_t block : {64, 128}) {
    product.block = block;
    product.sparse_output = true;
    std::uint32_t subtiles = 0;
    const TileSchedule over_blocks = block_schedule(product, 4);
    for (std::uint32_t place = 0; place < over_blocks.size(); ++place)
      subtiles += over_blocks.at(place).subtiles;
    CHECK(subtiles == 7u * static_cast<std::uint32_t>(block / box_side));
    product.sparse_output = false;
    const TileSchedule over_rows = block_schedule(product, 4);
    for (std::uint32_t place = 0; place < over_rows.size(); ++place) CHECK(over_rows.at(place).row_tile < 3);
  }
}

TEST_CASE("a pass of output blocks stays in one block row", "[block_sparse]") {
  const std::vector<std::int32_t> rows{0, 0, 0, 2, 3, 3, 3, 3, 3};
  BlockProduct product;
  product.sparse_output = true;
  product.depth = 65;
  product.row_indices = rows.data();
  product.nonzero_blocks = static_cast<std::int64_t>(rows.size());
  for (const std::int32_t block : {64, 128}) {
    product.block = block;
    const std::int32_t in_block = block / box_side;
    const TileSchedule schedule = block_schedule(product, 1);
    std::int32_t next = 0;
    for (std::uint32_t place = 0; place < schedule.size(); ++place)
      for (std::int32_t done = 0; done < static_cast<std::int32_t>(schedule.at(place).subtiles);) {
        const BlockPass pass = block_pass(product, schedule.at(place), done);
        CHECK(pass.first_subtile == next);
        CHECK(pass.steps == 2);
        for (std::int32_t i = 0; i < pass.subtiles; ++i)
          CHECK(rows[static_cast<std::size_t>((pass.first_subtile + i) / in_block)] == pass.block_row);
        done += pass.subtiles;
        next += pass.subtiles;
      }
    CHECK(next == static_cast<std::int32_t>(rows.size()) * in_block);
  }
}
