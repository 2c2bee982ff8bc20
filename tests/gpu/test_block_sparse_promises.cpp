// What every block-sparse call promises beyond its numbers: the same bits in every run, the caller's stream
// only (so that it can be captured), refusals before anything is written, bits that do not depend on other
// rows.
#include "catch.hpp"
#include "device_stream.hpp"
#include "matrix_fixtures.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// The bytes of each output of the three verbs over the same operands.
struct Verbs {
  DeviceBlockSparse sparse, sparse_out;
  DeviceDense right, left, tall, dsd_out, dds_out;

  explicit Verbs(ElementType type)
      : sparse(type, 32, 512, 384, false, 0.5, Fill::random, 1),
        sparse_out(type, 32, 512, 384, false, 0.5, Fill::poison, 1),
        right(type, 384, 200, false, 0, Fill::random, 2),
        left(type, 200, 512, true, 3, Fill::random, 3),
        tall(type, 512, 200, false, 0, Fill::random, 4),
        dsd_out(type, 512, 200, false, 0, Fill::poison, 0),
        dds_out(type, 200, 384, true, 8, Fill::poison, 0) {}

  void enqueue(Stream stream) const {
    sdd(tall.view(), transposed(right.view()), sparse_out.view(), stream);
    dsd(sparse.view(), right.view(), dsd_out.view(), stream);
    dds(left.view(), sparse.view(), dds_out.view(), stream);
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
  for (const ElementType type : {ElementType::bf16, ElementType::fp32}) {
    Verbs verbs(type);
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
  }
}

TEST_CASE("a block row's bits do not depend on the other block rows", "[block_sparse]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
    for (const std::int64_t block : {16, 128}) {
      const std::int64_t columns = 4 * block, width = 72;
      const DeviceBlockSparse all(type, block, 3 * block, columns, false, 0.0, Fill::random, 1);
      const DeviceDense right(type, columns, width, false, 0, Fill::random, 2);
      DeviceDense all_out(type, 3 * block, width, false, 0, Fill::poison, 0);
      dsd(all.view(), right.view(), all_out.view(), nullptr);
      all_out.download();

      // The middle block row alone: the same values behind a pattern of one row.
      const DeviceBlockSparse pattern(type, block, block, columns, false, 0.0, Fill::poison, 1);
      BlockSparseMatrix alone = pattern.view();
      const std::int64_t bytes_before = 4 * block * block * element_bytes(type);
      alone.values = static_cast<unsigned char*>(all.view().values) + bytes_before;
      DeviceDense alone_out(type, block, width, false, 0, Fill::poison, 0);
      dsd(alone, right.view(), alone_out.view(), nullptr);
      alone_out.download();
      const auto row_bytes = static_cast<std::ptrdiff_t>(block * width * element_bytes(type));
      const std::vector<unsigned char> middle(all_out.bytes().begin() + row_bytes,
                                              all_out.bytes().begin() + 2 * row_bytes);
      CHECK(alone_out.bytes() == middle);
    }
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
  int devices = 0;
  DROPLESS_CUDA_CHECK(cudaGetDeviceCount(&devices));
  if (devices < 2) {
    WARN("skipped: needs two GPUs");
    return;
  }
  Verbs verbs(ElementType::bf16);
  DROPLESS_CUDA_CHECK(cudaSetDevice(1));
  CHECK_THROWS_AS(verbs.enqueue(nullptr), Error);
  CHECK_THROWS_AS(dsd(verbs.sparse.view(), verbs.right.view(), verbs.dsd_out.view(), nullptr), Error);
  DROPLESS_CUDA_CHECK(cudaSetDevice(0));
}
