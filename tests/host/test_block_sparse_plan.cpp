// The tiles and steps of the block-sparse kernels, walked on the CPU: every verb and transpose gives the
// reference product, and every output element is covered exactly once.
#include "block_sparse_plan.hpp"

#include <cmath>

#include "catch.hpp"
#include "dropless/block_sparse_reference.hpp"
#include "random_values.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

enum class Verb { sdd, dsd, dds };

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

struct DenseStorage {
  std::vector<float> memory;
  std::int64_t rows, columns, pitch;
  bool transposed;

  DenseStorage(std::int64_t read_rows, std::int64_t read_columns, bool is_transposed, std::uint32_t seed)
      : rows(is_transposed ? read_columns : read_rows),
        columns(is_transposed ? read_rows : read_columns),
        pitch(columns + 1),
        transposed(is_transposed) {
    memory = random_values<float>(rows * pitch, seed);
  }
  DenseMatrix view() { return {memory.data(), rows, columns, pitch, ElementType::fp32, transposed}; }
  HostDenseMatrix<float> host() { return {memory.data(), rows, columns, pitch, transposed}; }
  HostDenseMatrix<const float> host_input() const {
    return {memory.data(), rows, columns, pitch, transposed};
  }
};

void check_walk(Verb verb, std::int64_t block, int transposes, Tile shape, double sparsity) {
  const bool a_t = transposes & 1, b_t = transposes & 2, out_t = transposes & 4;
  const std::int64_t m = verb == Verb::dds ? 37 : 2 * block, n = verb == Verb::dsd ? 37 : 3 * block,
                     k = verb == Verb::sdd ? 41 : 2 * block;
  const bool sparse_t = verb == Verb::sdd ? out_t : verb == Verb::dsd ? a_t : b_t;
  const std::int64_t sparse_rows = verb == Verb::dds ? k : m, sparse_columns = verb == Verb::dsd ? k : n;
  const BlockTopology topology =
      random_pattern(block, (sparse_t ? sparse_columns : sparse_rows) / block,
                     (sparse_t ? sparse_rows : sparse_columns) / block, sparsity, 5);
  std::vector<float> values = random_values<float>(topology.nonzero_blocks * block * block, 6);
  BlockSparseMatrix sparse{ElementType::fp32,
                           block,
                           topology.block_rows * block,
                           topology.block_columns * block,
                           topology.nonzero_blocks,
                           topology.offsets.data(),
                           topology.row_indices.data(),
                           topology.column_indices.data(),
                           topology.offsets_transposed.data(),
                           topology.column_indices_transposed.data(),
                           topology.block_offsets_transposed.data(),
                           values.data(),
                           sparse_t};
  DenseStorage a(m, k, a_t, 1), b(k, n, b_t, 2), out(m, n, out_t, 3), expected = out;
  std::vector<float> expected_values = values;
  std::vector<int> covered(verb == Verb::sdd ? values.size() : out.memory.size(), 0);
  const HostBlockSparseMatrix<const float> host_sparse{&topology, values.data(), sparse_t};
  switch (verb) {
    case Verb::sdd:
      walk(plan_sdd(a.view(), b.view(), sparse), shape, covered);
      reference_sdd(a.host_input(), b.host_input(), {&topology, expected_values.data(), sparse_t});
      break;
    case Verb::dsd:
      walk(plan_dsd(sparse, b.view(), out.view()), shape, covered);
      reference_dsd(host_sparse, b.host_input(), expected.host());
      break;
    case Verb::dds:
      walk(plan_dds(a.view(), sparse, out.view()), shape, covered);
      reference_dds(a.host_input(), host_sparse, expected.host());
      break;
  }
  const std::vector<float>& actual = verb == Verb::sdd ? values : out.memory;
  const std::vector<float>& wanted = verb == Verb::sdd ? expected_values : expected.memory;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool padding = verb != Verb::sdd && static_cast<std::int64_t>(i) % out.pitch >= out.columns;
    REQUIRE(covered[i] == (padding ? 0 : 1));
    REQUIRE(std::abs(actual[i] - wanted[i]) < 1e-4F);
  }
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
