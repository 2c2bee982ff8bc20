// Block-sparse matrices to dense and back, and the transposed view of any pattern, bit for bit.
#include "catch.hpp"
#include "device_stream.hpp"
#include "matrix_fixtures.hpp"
#include "random_values.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

void check_round_trip(ElementType type, std::int64_t block, bool sparse_transposed, bool dense_transposed,
                      double sparsity) {
  const std::int64_t rows = 2 * block, columns = 5 * block;
  DeviceBlockSparse matrix(type, block, rows, columns, sparse_transposed, sparsity, Fill::random, 7);
  DeviceDense dense(type, rows, columns, dense_transposed, 5, Fill::poison, 0);
  to_dense(matrix.view(), dense.view(), nullptr);
  dense.download();
  matrix.download();
  CHECK(dense.surroundings_intact());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) REQUIRE(dense.value(i, j) == matrix.value(i, j));

  const std::vector<unsigned char> values = matrix.bytes();
  matrix.poison();
  from_dense(dense.view(), matrix.view(), nullptr);
  matrix.download();
  CHECK(matrix.bytes() == values);
  CHECK(matrix.surroundings_intact());
}

void check_transposed_view(const BlockTopology& topology) {
  const DeviceBlockSparse matrix(ElementType::bf16, topology, false, Fill::poison, 0);
  BlockSparseMatrix pattern = matrix.view();
  pattern.offsets_transposed = pattern.column_indices_transposed = pattern.block_offsets_transposed = nullptr;
  const auto rows = pattern.rows, columns = pattern.columns, blocks = pattern.nonzero_blocks;
  const DeviceBuffer<unsigned char> memory(transposed_view_bytes(rows, columns, topology.block, blocks)),
      workspace(transposed_view_workspace_bytes(rows, columns, topology.block, blocks));
  const DeviceStream stream;
  BlockSparseMatrix built;
  const auto build = [&] {
    built = with_transposed_view(pattern, memory.data(), memory.bytes(), workspace.data(), workspace.bytes(),
                                 stream);
  };
  const CapturedGraph graph(stream, build);
  graph.replay();
  stream.synchronize();
  const auto count = static_cast<std::size_t>(blocks);
  CHECK(download(built.offsets_transposed, topology.offsets_transposed.size()) ==
        topology.offsets_transposed);
  CHECK(download(built.column_indices_transposed, count) == topology.column_indices_transposed);
  CHECK(download(built.block_offsets_transposed, count) == topology.block_offsets_transposed);
  CHECK(memory.guards_intact());
  CHECK(workspace.guards_intact());
}

}  // namespace

TEST_CASE("to_dense and from_dense move every bit in every orientation", "[block_sparse][small]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
    for (const std::int64_t block : {16, 32, 64, 128})
      for (int transposes = 0; transposes < 4; ++transposes)
        check_round_trip(type, block, transposes & 1, transposes & 2, block == 64 ? 1.0 : 0.5);
}

TEST_CASE("to_dense and from_dense of matrices without rows or columns write nothing",
          "[block_sparse][small]") {
  const ElementType type = GENERATE(ElementType::bf16, ElementType::fp32);
  const auto [rows, columns] = GENERATE(std::pair{0, 128}, std::pair{128, 0}, std::pair{0, 0});
  for (int transposes = 0; transposes < 4; ++transposes) {
    const bool dense_transposed = transposes & 2;
    DeviceBlockSparse matrix(type, 32, rows, columns, transposes & 1, 0.0, Fill::poison, 1);
    // A pitch of 3, so that a matrix without columns has memory that a wrong call could write.
    DeviceDense dense(type, rows, columns, dense_transposed, 3, Fill::poison, 0);
    REQUIRE(matrix.view().nonzero_blocks == 0);
    to_dense(matrix.view(), dense.view(), nullptr);
    from_dense(dense.view(), matrix.view(), nullptr);
    dense.download();
    matrix.download();
    CHECK(dense.surroundings_intact());
    CHECK(matrix.surroundings_intact());
  }
  CHECK_NOTHROW(to_dense({}, {}, nullptr));
  CHECK_NOTHROW(from_dense({}, {}, nullptr));
}

TEST_CASE("the transposed view equals the host's for random patterns", "[block_sparse][small]") {
  for (const double sparsity : {0.0, 0.3, 0.9, 1.0}) {
    check_transposed_view(random_pattern(16, 1, 1, sparsity, 1));
    check_transposed_view(random_pattern(16, 7, 300, sparsity, 2));
    check_transposed_view(random_pattern(64, 129, 65, sparsity, 3));
    check_transposed_view(random_pattern(128, 0, 4, sparsity, 4));
    check_transposed_view(random_pattern(128, 4, 0, sparsity, 5));
  }
}

TEST_CASE("the transposed view of a million blocks", "[block_sparse]") {
  check_transposed_view(random_pattern(16, 1500, 1400, 0.5, 6));
}

TEST_CASE("a transposed view needs its memory", "[block_sparse][small]") {
  const DeviceBlockSparse matrix(ElementType::bf16, 16, 64, 64, false, 0.0, Fill::poison, 1);
  const DeviceBuffer<unsigned char> memory(transposed_view_bytes(64, 64, 16, 16)),
      workspace(transposed_view_workspace_bytes(64, 64, 16, 16));
  const auto build = [&](void* view, std::size_t view_bytes, void* scratch, std::size_t scratch_bytes) {
    with_transposed_view(matrix.view(), view, view_bytes, scratch, scratch_bytes, nullptr);
  };
  CHECK_THROWS_AS(build(nullptr, memory.bytes(), workspace.data(), workspace.bytes()), Error);
  CHECK_THROWS_AS(build(memory.data(), memory.bytes() - 1, workspace.data(), workspace.bytes()), Error);
  CHECK_THROWS_AS(build(memory.data(), memory.bytes(), nullptr, workspace.bytes()), Error);
  CHECK_THROWS_AS(build(memory.data(), memory.bytes(), workspace.data(), workspace.bytes() - 1), Error);
  CHECK_THROWS_AS(build(memory.data() + 4, memory.bytes(), workspace.data(), workspace.bytes()), Error);
}
