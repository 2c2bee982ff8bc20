// The tiles and steps of the block-sparse kernels, walked on the CPU: every verb and transpose gives the
// reference product, and every output element is covered exactly once.
#include "block_product_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// A tile as a kernel cuts it.
struct Tile {
  int rows, columns, depth;
};

/// What the kernels compute, in the order in which they do, over float operands.
void walk(const BlockProduct& product, Tile shape, std::vector<int>& covered) {
  const auto* left = static_cast<const float*>(product.left.data);
  const auto* right = static_cast<const float*>(product.right.data);
  auto* out = static_cast<float*>(product.out.data);
  for (std::int64_t index = 0; index < block_tile_count(product, shape.rows, shape.columns); ++index) {
    if (!block_tile_exists(product, index, shape.rows, shape.columns)) continue;
    const BlockTile tile = block_tile(product, index, shape.rows, shape.columns, shape.depth);
    for (std::int64_t i = 0; i < shape.rows; ++i)
      for (std::int64_t j = 0; j < tile.columns; ++j) {
        float sum = 0;
        for (std::int32_t s = 0; s < tile.steps; ++s) {
          const BlockStep step = block_step(product, tile, s, shape.depth);
          for (std::int64_t k = 0; k < step.depth_left; ++k)
            sum +=
                left[step.left + product.left.offset(i, k)] * right[step.right + product.right.offset(j, k)];
        }
        const std::int64_t at = tile.out + product.out.offset(i, j);
        out[at] = sum;
        ++covered[static_cast<std::size_t>(at)];
      }
  }
}

void check_walk(Verb verb, std::int64_t block, int transposes, Tile shape, double sparsity) {
  check_block_product(
      verb, random_pattern(block, 2, 3, sparsity, 5), transposes, 37,
      [&](const BlockProduct& product, std::vector<int>& covered) { walk(product, shape, covered); });
}

}  // namespace

TEST_CASE("block-sparse tiles and steps give the reference product and cover it once", "[block_sparse]") {
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (int transposes = 0; transposes < 8; ++transposes)
      for (const double sparsity : {0.0, 0.5, 1.0}) {
        const bool sparse_output = verb == Verb::sdd;
        check_walk(verb, 16, transposes, sparse_output ? Tile{16, 16, 32} : Tile{16, 128, 16}, sparsity);
        check_walk(verb, 32, transposes, sparse_output ? Tile{32, 32, 32} : Tile{32, 128, 32}, sparsity);
        check_walk(verb, 64, transposes, Tile{64, 64, 16}, sparsity);
        if (transposes % 3 == 0) check_walk(verb, 128, transposes, Tile{64, 64, 16}, sparsity);
      }
}

TEST_CASE("tiles past the counts do not exist", "[block_sparse]") {
  const BlockCounts counts{3, 7};
  BlockProduct product;
  product.block = 64;
  product.counts = &counts;
  product.sparse_output = true;
  product.nonzero_blocks = 20;
  for (std::int64_t tile = 0; tile < block_tile_count(product, 32, 16); ++tile)
    REQUIRE(block_tile_exists(product, tile, 32, 16) == (tile < 7 * 2 * 4));
  product.sparse_output = false;
  product.rows = 5 * 64;
  product.columns = 100;
  for (std::int64_t tile = 0; tile < block_tile_count(product, 32, 16); ++tile)
    REQUIRE(block_tile_exists(product, tile, 32, 16) == (tile < 3 * 2 * 7));
}
