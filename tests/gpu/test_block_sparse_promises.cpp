// What every block-sparse call promises beyond its numbers: the same bits in every run, the caller's stream
// only (so that it can be captured), refusals before anything is written, bits that do not depend on other
// rows.
#include <algorithm>

#include "catch.hpp"
#include "device_stream.hpp"
#include "kernel_paths.hpp"
#include "matrix_fixtures.hpp"
#include "refused_argument.hpp"
#include "second_gpu.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// The bytes of each output of the three verbs over the same operands.
struct Verbs {
  const KernelPath path;
  DeviceBlockSparse sparse, sparse_out;
  DeviceDense right, left, tall, dsd_out, dds_out;

  explicit Verbs(ElementType type, std::int64_t block = 32, KernelPath kernel_path = KernelPath::automatic)
      : path(kernel_path),
        sparse(type, block, 512, 384, false, 0.5, Fill::random, 1),
        sparse_out(type, block, 512, 384, false, 0.5, Fill::poison, 1),
        right(type, 384, 200, false, 0, Fill::random, 2),
        left(type, 200, 512, true, path == KernelPath::sm90 ? 8 : 3, Fill::random, 3),
        tall(type, 512, 200, false, 0, Fill::random, 4),
        dsd_out(type, 512, 200, false, 0, Fill::poison, 0),
        dds_out(type, 200, 384, true, 8, Fill::poison, 0) {}

  void enqueue(Stream stream) const {
    sdd(tall.view(), transposed(right.view()), sparse_out.view(), stream, path);
    dsd(sparse.view(), right.view(), dsd_out.view(), stream, path);
    dds(left.view(), sparse.view(), dds_out.view(), stream, path);
  }
  void poison() {
    sparse_out.poison();
    dsd_out.poison();
    dds_out.poison();
  }
  std::vector<std::vector<unsigned char>> outputs() {
    sparse_out.download();
    dsd_out.download();
    dds_out.download();
    return {sparse_out.bytes(), dsd_out.bytes(), dds_out.bytes()};
  }
};

}  // namespace

TEST_CASE("block-sparse products give the same bits 100 times, launched or replayed", "[block_sparse]") {
  const auto check = [](Verbs verbs) {
    const DeviceStream stream;
    verbs.enqueue(stream);
    const auto first = verbs.outputs();
    const CapturedGraph graph(stream, [&] { verbs.enqueue(stream); });
    for (int run = 0; run < 100; ++run) {
      verbs.poison();
      graph.replay();
      stream.synchronize();
      REQUIRE(verbs.outputs() == first);
    }
  };
  for (const ElementType type : {ElementType::bf16, ElementType::fp32}) check(Verbs(type));
  if (gpu_has(KernelPath::sm90))
    for (const std::int64_t block : {64, 128}) check(Verbs(ElementType::bf16, block, KernelPath::sm90));
}

namespace {

void check_row_alone(ElementType type, std::int64_t block, KernelPath path) {
  const std::int64_t columns = 4 * block, width = 72;
  const DeviceBlockSparse all(type, block, 3 * block, columns, false, 0.0, Fill::random, 1);
  const DeviceDense right(type, columns, width, false, 0, Fill::random, 2);
  DeviceDense all_out(type, 3 * block, width, false, 0, Fill::poison, 0);
  dsd(all.view(), right.view(), all_out.view(), nullptr, path);
  all_out.download();

  // The middle block row alone: the same values behind a pattern of one row.
  const DeviceBlockSparse pattern(type, block, block, columns, false, 0.0, Fill::poison, 1);
  BlockSparseMatrix alone = pattern.view();
  const std::int64_t bytes_before = 4 * block * block * element_bytes(type);
  alone.values = static_cast<unsigned char*>(all.view().values) + bytes_before;
  DeviceDense alone_out(type, block, width, false, 0, Fill::poison, 0);
  dsd(alone, right.view(), alone_out.view(), nullptr, path);
  alone_out.download();
  const auto row_bytes = static_cast<std::ptrdiff_t>(block * width * element_bytes(type));
  const std::vector<unsigned char> middle(all_out.bytes().begin() + row_bytes,
                                          all_out.bytes().begin() + 2 * row_bytes);
  CHECK(alone_out.bytes() == middle);
}

/// The blocks of a sparse pattern have the bits that they have in a full one, and so have those of a pattern
/// without offsets.
void check_blocks_alone(ElementType type, std::int64_t block, KernelPath path) {
  const std::int64_t rows = 16 * block, columns = 8 * block, depth = 328;
  const DeviceDense left(type, rows, depth, false, 0, Fill::random, 1),
      right(type, depth, columns, false, 0, Fill::random, 2);
  DeviceBlockSparse full(type, block, rows, columns, false, 0.0, Fill::poison, 1),
      some(type, block, rows, columns, false, 0.6, Fill::poison, 1);
  for (DeviceBlockSparse* const out : {&full, &some}) {
    sdd(left.view(), right.view(), out->view(), nullptr, path);
    out->download();
  }
  const std::vector<unsigned char> expected_full = full.bytes();
  BlockSparseMatrix without_offsets = full.view();
  without_offsets.offsets = nullptr;
  full.poison();
  sdd(left.view(), right.view(), without_offsets, nullptr, path);
  full.download();
  CHECK(full.bytes() == expected_full);

  const auto block_bytes = static_cast<std::ptrdiff_t>(block * block * element_bytes(type));
  const auto values = [&](const DeviceBlockSparse& matrix, std::int64_t row, std::int64_t column) {
    return matrix.bytes().begin() + matrix.block_of(row * block, column * block) * block_bytes;
  };
  for (std::int64_t row = 0; row < 16; ++row)
    for (std::int64_t column = 0; column < 8; ++column)
      if (some.block_of(row * block, column * block) >= 0) {
        const auto expected = values(full, row, column);
        CHECK(std::equal(expected, expected + block_bytes, values(some, row, column)));
      }
}

}  // namespace

TEST_CASE("a result's bits do not depend on other block rows or blocks", "[block_sparse]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
    for (const std::int64_t block : {16, 64, 128}) {
      check_row_alone(type, block, KernelPath::portable);
      check_blocks_alone(type, block, KernelPath::portable);
      if (!gpu_has(KernelPath::sm90) || type == ElementType::fp32 || block == 16) continue;
      check_row_alone(type, block, KernelPath::sm90);
      check_blocks_alone(type, block, KernelPath::sm90);
    }
}

TEST_CASE("the Hopper path of block-sparse products is chosen by what TMA can address",
          "[block_sparse][small]") {
  const auto path_of = [](ElementType type, std::int64_t block, std::int64_t pad, std::int64_t width) {
    const DeviceBlockSparse sparse(type, block, 256, 384, false, 0.5, Fill::random, 1);
    const DeviceDense right(type, 384, width, false, pad, Fill::random, 2),
        out(type, 256, width, false, pad, Fill::poison, 0);
    return dsd_path(sparse.view(), right.view(), out.view());
  };
  const KernelPath best = gpu_has(KernelPath::sm90) ? KernelPath::sm90 : KernelPath::portable;
  CHECK(path_of(ElementType::bf16, 128, 0, 64) == best);
  CHECK(path_of(ElementType::fp16, 64, 8, 72) == best);
  CHECK(path_of(ElementType::fp32, 128, 0, 64) == KernelPath::portable);
  CHECK(path_of(ElementType::bf16, 32, 0, 64) == KernelPath::portable);
  CHECK(path_of(ElementType::bf16, 128, 4, 64) == KernelPath::portable);
  CHECK(path_of(ElementType::bf16, 128, 4, 68) == KernelPath::portable);

  const Verbs unaligned(ElementType::bf16, 64);  // the left operand's pitch is odd
  CHECK_THROWS_AS(dds(unaligned.left.view(), unaligned.sparse.view(), unaligned.dds_out.view(), nullptr,
                      KernelPath::sm90),
                  Error);
}

TEST_CASE("a refused block-sparse call writes nothing", "[block_sparse][small]") {
  Verbs verbs(ElementType::bf16);
  BlockSparseMatrix wrong_block = verbs.sparse.view();
  wrong_block.block = 128;
  CHECK_NOTHROW(dsd(verbs.sparse.view(), verbs.right.view(), verbs.dsd_out.view(), nullptr));
  verbs.poison();
  const auto untouched = verbs.outputs();
  wrong_block.rows = 480;
  CHECK_THROWS_AS(dsd(wrong_block, verbs.right.view(), verbs.dsd_out.view(), nullptr), Error);
  CHECK_THROWS_AS(dds(verbs.left.view(), transposed(verbs.sparse.view()), verbs.dds_out.view(), nullptr),
                  Error);
  CHECK_THROWS_AS(sdd(verbs.tall.view(), verbs.right.view(), verbs.sparse_out.view(), nullptr), Error);
  CHECK_THROWS_AS(dsd(verbs.sparse.view(), verbs.right.view(), verbs.right.view(), nullptr), Error);
  CHECK_THROWS_AS(to_dense(verbs.sparse.view(), verbs.dsd_out.view(), nullptr), Error);
  CHECK_THROWS_AS(from_dense(verbs.tall.view(), verbs.sparse_out.view(), nullptr), Error);
  CHECK(verbs.outputs() == untouched);
}

TEST_CASE("a topology of another GPU is refused", "[block_sparse]") {
  const Verbs verbs(ElementType::bf16);
  const DeviceDense dense(ElementType::bf16, 512, 384, false, 0, Fill::random, 5);
  const BlockSparseMatrix matrix = verbs.sparse.view();
  const std::size_t view_bytes = transposed_view_bytes(512, 384, 32, matrix.nonzero_blocks);
  const DeviceBuffer<unsigned char> view(view_bytes),
      workspace(transposed_view_workspace_bytes(512, 384, 32, matrix.nonzero_blocks));
  with_second_gpu_current([&] {
    CHECK(refused_argument([&] {
            sdd(verbs.tall.view(), transposed(verbs.right.view()), verbs.sparse_out.view(), nullptr);
          }) == "the block-sparse matrix's indices");
    CHECK(refused_argument([&] { dsd(matrix, verbs.right.view(), verbs.dsd_out.view(), nullptr); }) ==
          "the block-sparse matrix's indices");
    CHECK(refused_argument([&] { dds(verbs.left.view(), matrix, verbs.dds_out.view(), nullptr); }) ==
          "the block-sparse matrix's indices");
    CHECK(refused_argument([&] { to_dense(matrix, dense.view(), nullptr); }) == "matrix.offsets");
    CHECK(refused_argument([&] { from_dense(dense.view(), matrix, nullptr); }) == "out.row_indices");
    const auto build = [&](const BlockSparseMatrix& pattern, void* memory) {
      with_transposed_view(pattern, memory, view_bytes, workspace.data(), workspace.bytes(), nullptr);
    };
    CHECK(refused_argument([&] { build(matrix, view.data()); }) == "matrix.row_indices");
    // A pattern of this GPU, but memory of the other one.
    const DeviceBuffer<std::int32_t> row_indices(static_cast<std::size_t>(matrix.nonzero_blocks)),
        column_indices(row_indices.size());
    BlockSparseMatrix here = matrix;
    here.row_indices = row_indices.data();
    here.column_indices = column_indices.data();
    CHECK(refused_argument([&] { build(here, view.data()); }) == "memory");
  });
}
