// Every refusal of the block-sparse calls, and which memory counts as shared.
#include "block_sparse_checks.hpp"

#include "catch.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using dropless::test::refused_argument;

namespace {

// Addresses and index arrays that the checks may look at but never follow.
alignas(16) unsigned char memory[1 << 18];
const std::int32_t index[1] = {0};

BlockSparseMatrix sparse_matrix() {
  return {ElementType::bf16, 32, 64, 96, 3, index, index, index, index, index, index, memory, false};
}
DenseMatrix dense_matrix(std::int64_t rows, std::int64_t columns, int place) {
  return {memory + (place << 15), rows, columns, columns, ElementType::bf16, false};
}

void refuse(const BlockSparseMatrix& a, const DenseMatrix& b, const DenseMatrix& out) {
  CHECK_THROWS_AS(check_dsd(a, b, out), Error);
}

}  // namespace

TEST_CASE("well-formed block-sparse calls are accepted", "[block_sparse]") {
  const BlockSparseMatrix sparse = sparse_matrix();
  CHECK_NOTHROW(check_dsd(sparse, dense_matrix(96, 40, 1), dense_matrix(64, 40, 2)));
  CHECK_NOTHROW(check_dsd(transposed(sparse), dense_matrix(64, 40, 1), dense_matrix(96, 40, 2)));
  CHECK_NOTHROW(check_dsd(sparse, transposed(dense_matrix(40, 96, 1)), transposed(dense_matrix(40, 64, 2))));
  CHECK_NOTHROW(check_dds(dense_matrix(40, 64, 1), sparse, dense_matrix(40, 96, 2)));
  CHECK_NOTHROW(check_sdd(dense_matrix(64, 40, 1), dense_matrix(40, 96, 2), sparse));
  CHECK_NOTHROW(check_sdd(dense_matrix(96, 40, 1), dense_matrix(40, 64, 2), transposed(sparse)));
  CHECK_NOTHROW(check_to_dense(sparse, dense_matrix(64, 96, 1)));
  CHECK_NOTHROW(check_from_dense(dense_matrix(64, 96, 1), sparse));
  CHECK_NOTHROW(check_dsd({}, {}, {}));
}

TEST_CASE("a pattern that cannot be one is refused", "[block_sparse]") {
  const DenseMatrix b = dense_matrix(96, 40, 1), out = dense_matrix(64, 40, 2);
  for (const std::int64_t block : {0, -16, 8, 48, 256}) {
    BlockSparseMatrix a = sparse_matrix();
    a.block = block;
    refuse(a, b, out);
  }
  for (const std::int64_t blocks : {std::int64_t{-1}, std::int64_t{7}, std::int64_t{1} << 31}) {
    BlockSparseMatrix a = sparse_matrix();
    a.nonzero_blocks = blocks;
    refuse(a, b, out);
  }
  BlockSparseMatrix a = sparse_matrix();
  a.rows = 65;
  refuse(a, b, out);
  a = sparse_matrix();
  a.columns = 80;
  refuse(a, b, out);
}

TEST_CASE("a layout built for blocks of 64 is refused at 128", "[block_sparse]") {
  // Rows [128, 130, 65] padded to 64: 128 + 192 + 128.
  BlockSparseMatrix a = sparse_matrix();
  a.rows = 448;
  a.columns = 384;
  a.block = 128;
  try {
    check_dsd(a, dense_matrix(384, 8, 1), dense_matrix(448, 8, 3));
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.argument() == "a.rows");
    CHECK(error.value() == "448");
  }
  // Rows [128, 128, 128] divide by both; the blocks of 64 are then too many.
  a.rows = 384;
  a.nonzero_blocks = 3 * 2 * 2;
  CHECK(refused_argument([&] { check_dsd(a, dense_matrix(384, 8, 1), dense_matrix(384, 8, 3)); }) ==
        "a.nonzero_blocks");
}

TEST_CASE("null and misaligned memory is refused where it would be used", "[block_sparse]") {
  const DenseMatrix b = dense_matrix(96, 40, 1), out = dense_matrix(64, 40, 2);
  BlockSparseMatrix a = sparse_matrix();
  a.offsets = nullptr;
  refuse(a, b, out);
  CHECK_NOTHROW(check_dsd(transposed(a), dense_matrix(64, 40, 1), dense_matrix(96, 40, 2)));
  a = sparse_matrix();
  a.column_indices = nullptr;
  refuse(a, b, out);
  a.column_indices = reinterpret_cast<const std::int32_t*>(memory + 2);
  refuse(a, b, out);
  a = sparse_matrix();
  a.values = nullptr;
  refuse(a, b, out);
  a.values = memory + 1;
  refuse(a, b, out);
  a = transposed(sparse_matrix());
  a.block_offsets_transposed = nullptr;
  refuse(a, dense_matrix(64, 40, 1), dense_matrix(96, 40, 2));
  DenseMatrix missing = b;
  missing.data = nullptr;
  refuse(sparse_matrix(), missing, out);
  BlockSparseMatrix unindexed = sparse_matrix();
  unindexed.row_indices = nullptr;
  CHECK_THROWS_AS(check_sdd(dense_matrix(64, 40, 1), dense_matrix(40, 96, 2), unindexed), Error);
  CHECK_THROWS_AS(check_from_dense(dense_matrix(64, 96, 1), unindexed), Error);
}

TEST_CASE("shapes, pitches and types that do not match are refused", "[block_sparse]") {
  const BlockSparseMatrix a = sparse_matrix();
  const DenseMatrix b = dense_matrix(96, 40, 1), out = dense_matrix(64, 40, 2);
  refuse(a, dense_matrix(64, 40, 1), out);
  refuse(a, b, dense_matrix(64, 41, 2));
  refuse(a, b, dense_matrix(96, 40, 2));
  refuse(a, transposed(b), out);
  DenseMatrix narrow = b;
  narrow.leading_dimension = 39;
  refuse(a, narrow, out);
  DenseMatrix half = b;
  half.type = ElementType::fp16;
  refuse(a, half, out);
  DenseMatrix endless = b;
  endless.leading_dimension = std::int64_t{1} << 60;
  refuse(a, endless, out);
  DenseMatrix negative = b;
  negative.columns = -1;
  refuse(a, negative, out);
  CHECK_THROWS_AS(check_dds(dense_matrix(40, 96, 1), a, dense_matrix(40, 96, 2)), Error);
  CHECK_THROWS_AS(check_sdd(dense_matrix(64, 40, 1), dense_matrix(41, 96, 2), a), Error);
  CHECK_THROWS_AS(check_sdd(dense_matrix(32, 40, 1), dense_matrix(40, 96, 2), a), Error);
  CHECK_THROWS_AS(check_to_dense(a, dense_matrix(96, 64, 1)), Error);
  CHECK_THROWS_AS(check_from_dense(dense_matrix(96, 64, 1), a), Error);
}

TEST_CASE("an output in the memory of an input is refused", "[block_sparse]") {
  const BlockSparseMatrix a = sparse_matrix();
  refuse(a, dense_matrix(96, 40, 1), dense_matrix(64, 40, 1));
  refuse(a, dense_matrix(96, 40, 1), dense_matrix(64, 40, 0));
  CHECK_THROWS_AS(check_sdd(dense_matrix(64, 40, 0), dense_matrix(40, 96, 2), a), Error);
  CHECK_THROWS_AS(check_dds(dense_matrix(40, 64, 1), a, dense_matrix(40, 96, 0)), Error);
}

TEST_CASE("two matrices overlap where they share a byte", "[matrix_span]") {
  const auto at = [](std::int64_t offset, std::int64_t rows, std::int64_t bytes, std::int64_t pitch) {
    return MatrixSpan{memory + 4096 + offset, rows, bytes, pitch};
  };
  CHECK(spans_overlap(at(0, 4, 32, 64), at(0, 4, 32, 64)));
  CHECK_FALSE(spans_overlap(at(0, 4, 32, 64), at(32, 4, 32, 64)));
  CHECK_FALSE(spans_overlap(at(32, 4, 32, 64), at(0, 4, 32, 64)));
  CHECK(spans_overlap(at(0, 4, 33, 64), at(32, 4, 32, 64)));
  CHECK(spans_overlap(at(48, 4, 32, 64), at(0, 4, 32, 64)));
  CHECK_FALSE(spans_overlap(at(0, 4, 64, 64), at(256, 4, 64, 64)));
  CHECK(spans_overlap(at(0, 4, 64, 64), at(255, 4, 64, 64)));
  CHECK(spans_overlap(at(0, 4, 32, 64), at(32, 8, 16, 32)));
  CHECK_FALSE(spans_overlap(at(0, 0, 32, 64), at(0, 4, 32, 64)));
  CHECK_FALSE(spans_overlap(at(0, 4, 0, 64), at(0, 4, 32, 64)));
}
