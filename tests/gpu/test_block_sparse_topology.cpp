// The blocked expert layer without the host: topology, gather, sdd and dsd in one captured graph over bounds,
// replayed with other routings. Each replay gives the bits that the host's exact topology gives, and writes
// nothing past the counts.
#include <algorithm>

#include "built_topology.hpp"
#include "device_stream.hpp"
#include "dropless/device_block_topology.hpp"
#include "dropless/permutation.hpp"
#include "matrix_fixtures.hpp"
#include "routing.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::int64_t tokens = 200, top_k = 2, experts = 12, d_model = 72;

RowsView as_rows(const DenseMatrix& matrix) { return {matrix.data, matrix.leading_dimension, matrix.type}; }
MutableRowsView as_mutable_rows(const DenseMatrix& matrix) {
  return {matrix.data, matrix.leading_dimension, matrix.type};
}

/// The rows of H and of Y of a blocked expert layer, and dW2.
struct Outputs {
  std::vector<unsigned char> h, y, dw2;
};

/// Compares the first bytes of `actual` with `expected`, and the rest with poison.
void require_prefix(const std::vector<unsigned char>& actual, const std::vector<unsigned char>& expected) {
  REQUIRE(actual.size() >= expected.size());
  const auto end = actual.begin() + static_cast<std::ptrdiff_t>(expected.size());
  CHECK(std::equal(actual.begin(), end, expected.begin()));
  CHECK(std::all_of(end, actual.end(), [](unsigned char byte) { return byte == 0xff; }));
}

/// The same products over the host's topology.
Outputs exact_outputs(const std::vector<std::int32_t>& ids, std::int64_t block,
                      const std::vector<std::int64_t>& d_ff, const DenseMatrix& x, const DenseMatrix& w1,
                      const DenseMatrix& w2) {
  const RowLayout layout =
      row_layout_from_ids(ArrayView<const std::int32_t>(ids.data(), ids.size()), experts, block);
  std::vector<std::int32_t> order;
  for (const std::int64_t row : layout.assignment_to_row) order.push_back(static_cast<std::int32_t>(row));
  const DeviceBuffer<std::int32_t> assignment_to_row(order);
  const DeviceDense rows(x.type, layout.scheduled_rows, d_model, false, 0, Fill::poison, 0);
  if (rows.view().rows != 0)
    DROPLESS_CUDA_CHECK(cudaMemset(
        rows.view().data, 0, static_cast<std::size_t>(rows.view().rows * d_model * element_bytes(x.type))));
  gather({tokens, top_k, assignment_to_row.data()}, as_rows(x), as_mutable_rows(rows.view()), d_model,
         nullptr);
  DeviceBlockSparse h(x.type, block_topology(layout, d_ff), false, Fill::poison, 0);
  DeviceDense y(x.type, layout.scheduled_rows, d_model, false, 0, Fill::poison, 0);
  DeviceDense dw2(x.type, w2.rows, d_model, false, 0, Fill::poison, 0);
  sdd(rows.view(), w1, h.view(), nullptr);
  dsd(h.view(), w2, y.view(), nullptr);
  dsd(transposed(h.view()), rows.view(), dw2.view(), nullptr);
  h.download();
  y.download();
  dw2.download();
  return {h.bytes(), y.bytes(), dw2.bytes()};
}

void check_replays(ElementType type, std::int64_t block, const std::vector<std::int64_t>& d_ff) {
  const TopologyBounds bounds{tokens, top_k, experts, {}};
  TopologyFixture<std::int32_t> fixture(std::vector<std::int32_t>(tokens * top_k, -1), bounds);
  const DeviceBuffer<unsigned char> memory(device_block_topology_bytes(bounds, block, d_ff));
  const DeviceStream stream;
  // The bounds are those of every build of this shape.
  const DeviceBlockTopology shape =
      build_block_topology(fixture.build(stream), block, d_ff, memory.data(), memory.size(), stream);
  const std::int64_t rows_bound = shape.block_rows_bound * block, columns = shape.block_columns * block;
  const DeviceDense x(type, tokens, d_model, false, 0, Fill::random, 1),
      w1(type, d_model, columns, false, 0, Fill::random, 2),
      w2(type, columns, d_model, false, 0, Fill::random, 3);
  DeviceDense rows(type, rows_bound, d_model, false, 0, Fill::poison, 0),
      y(type, rows_bound, d_model, false, 0, Fill::poison, 0),
      dw2(type, columns, d_model, false, 0, Fill::poison, 0);
  DeviceBuffer<unsigned char> values(
      static_cast<std::size_t>(shape.nonzero_blocks_bound * block * block * element_bytes(type)));
  const CapturedGraph graph(stream, [&] {
    const DeviceBlockTopology built =
        build_block_topology(fixture.build(stream), block, d_ff, memory.data(), memory.size(), stream);
    const BlockSparseMatrix h = built.matrix(type, values.data());
    gather(built.row_order(), as_rows(x.view()), as_mutable_rows(rows.view()), d_model, stream);
    clear_padding_rows(built, as_mutable_rows(rows.view()), d_model, stream);
    sdd(rows.view(), w1.view(), h, stream);
    dsd(h, w2.view(), y.view(), stream);
    dsd(transposed(h), rows.view(), dw2.view(), stream);
  });
  for (const int unrouted : {0, 30, 100}) {
    const auto ids =
        random_expert_ids(tokens, top_k, experts, static_cast<std::uint32_t>(unrouted), 2, unrouted);
    fixture.ids.upload(ids);
    rows.poison();
    y.poison();
    dw2.poison();
    values.poison();
    graph.replay();
    stream.synchronize();
    y.download();
    dw2.download();
    const Outputs expected = exact_outputs(ids, block, d_ff, x.view(), w1.view(), w2.view());
    require_prefix(values.download(), expected.h);
    require_prefix(y.bytes(), expected.y);
    CHECK(dw2.bytes() == expected.dw2);
  }
  CHECK(values.guards_intact());
}

}  // namespace

TEST_CASE("a captured blocked expert layer serves every routing", "[block_sparse][small]") {
  check_replays(ElementType::bf16, 16, {48});
  check_replays(ElementType::fp16, 64, {128});
  check_replays(ElementType::bf16, 128, {256});
  check_replays(ElementType::fp32, 32, {64});
  std::vector<std::int64_t> widths;
  for (std::int64_t e = 0; e < experts; ++e) widths.push_back((e % 3 + 1) * 32);
  check_replays(ElementType::bf16, 32, widths);
}

TEST_CASE("dense conversions stop at the counts", "[block_sparse][small]") {
  const TopologyBounds bounds{tokens, top_k, experts, {}};
  const std::vector<std::int64_t> d_ff{32};
  const auto ids = random_expert_ids(tokens, top_k, experts, 5, 2, 30);
  const TopologyFixture<std::int32_t> fixture(ids, bounds);
  const DeviceBuffer<unsigned char> memory(device_block_topology_bytes(bounds, 16, d_ff));
  const DeviceStream stream;
  const DeviceBlockTopology built =
      build_block_topology(fixture.build(stream), 16, d_ff, memory.data(), memory.size(), stream);
  const BlockCounts counts = download(built.counts, 1)[0];
  REQUIRE(counts.block_rows < built.block_rows_bound);
  REQUIRE(counts.nonzero_blocks < built.nonzero_blocks_bound);

  const std::int64_t all_values = built.nonzero_blocks_bound * 16 * 16;
  const DeviceBuffer<unsigned char> values(random_elements(ElementType::fp32, all_values, 1)),
      gathered(values.size());
  DeviceDense dense(ElementType::fp32, built.block_rows_bound * 16, built.block_columns * 16, false, 0,
                    Fill::poison, 0);
  to_dense(built.matrix(ElementType::fp32, values.data()), dense.view(), stream);
  from_dense(dense.view(), built.matrix(ElementType::fp32, gathered.data()), stream);
  dense.download();
  const auto row_bytes = static_cast<std::ptrdiff_t>(built.block_columns * 16 * 4);
  CHECK(std::all_of(dense.bytes().begin() + counts.block_rows * 16 * row_bytes, dense.bytes().end(),
                    [](unsigned char byte) { return byte == 0xff; }));
  std::vector<unsigned char> expected = values.download();
  expected.resize(static_cast<std::size_t>(counts.nonzero_blocks) * 16 * 16 * 4);
  require_prefix(gathered.download(), expected);
  CHECK_THROWS_AS(
      with_transposed_view(built.matrix(ElementType::fp32, values.data()), nullptr, 0, nullptr, 0, stream),
      Error);
}
