// The blocked topology on the GPU gives the host builder's arrays bit for bit.
#include "built_block_topology.hpp"
#include "built_topology.hpp"
#include "device_stream.hpp"
#include "dropless/permutation.hpp"
#include "routing.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

void require_build(const std::vector<std::int32_t>& ids, const TopologyBounds& bounds, std::int64_t block,
                   const std::vector<std::int64_t>& d_ff) {
  const TopologyFixture<std::int32_t> fixture(ids, bounds);
  const DeviceBuffer<unsigned char> memory(device_block_topology_bytes(bounds, block, d_ff));
  const DeviceStream stream;
  require_host_result(
      build_block_topology(fixture.build(stream), block, d_ff, memory.data(), memory.size(), stream), ids,
      d_ff);
  REQUIRE(memory.guards_intact());
  REQUIRE(fixture.guards_intact());
}

}  // namespace

TEST_CASE("blocked topology equals the host builder on small shapes", "[small]") {
  const std::int64_t block = GENERATE(16, 32, 64, 128);
  const std::int64_t tokens = GENERATE(0, 1, 200);
  const auto ids = random_expert_ids(tokens, 2, 12, 4, 2, 10);
  require_build(ids, {tokens, 2, 12, {}}, block, {3 * block});
  std::vector<std::int64_t> widths;
  for (std::int64_t e = 0; e < 12; ++e) widths.push_back((e % 4 + 1) * block);
  require_build(ids, {tokens, 2, 12, {}}, block, widths);
}

TEST_CASE("blocked topology of the shapes that other builders fail on") {
  // int16 indices overflow; block 64; a width that outgrows a thread block.
  require_build(random_expert_ids(4096, 1, 16, 1), {4096, 1, 16, {}}, 128, {4096});
  require_build(std::vector<std::int32_t>(40000, 3), {40000, 1, 16, {}}, 16, {4096});
  require_build(random_expert_ids(2048, 6, 64, 2), {2048, 6, 64, {}}, 64, {1408});
  require_build(random_expert_ids(8, 2, 8, 3), {8, 2, 8, {}}, 128, {14336});
  require_build(random_expert_ids(32768, 8, 128, 3, 1), {32768, 8, 128, {}}, 128, {1024});
  require_build(random_expert_ids(500, 4, 4096, 3), {500, 4, 4096, {}}, 16, {32});
}

TEST_CASE("a captured blocked build serves other routings", "[small]") {
  const TopologyBounds bounds{300, 4, 24, {}};
  const std::vector<std::int64_t> d_ff{96};
  TopologyFixture<std::int32_t> fixture(random_expert_ids(300, 4, 24, 1), bounds);
  const DeviceBuffer<unsigned char> memory(device_block_topology_bytes(bounds, 32, d_ff));
  const DeviceStream stream;
  DeviceBlockTopology built;
  const CapturedGraph graph(stream, [&] {
    built = build_block_topology(fixture.build(stream), 32, d_ff, memory.data(), memory.size(), stream);
  });
  for (std::uint32_t seed = 2; seed < 5; ++seed) {
    const auto ids = random_expert_ids(300, 4, 24, seed, static_cast<int>(seed) - 2, 10);
    fixture.ids.upload(ids);
    graph.replay();
    stream.synchronize();
    require_host_result(built, ids, d_ff);
  }
}

TEST_CASE("gather and cleared padding fill a blocked matrix", "[small]") {
  const std::int64_t columns = GENERATE(24, 5);
  const TopologyBounds bounds{40, 2, 6, {}};
  const std::vector<std::int64_t> d_ff{16};
  const auto ids = random_expert_ids(40, 2, 6, 8, 1, 10);
  const TopologyFixture<std::int32_t> fixture(ids, bounds);
  const DeviceBuffer<unsigned char> memory(device_block_topology_bytes(bounds, 16, d_ff));
  const DeviceStream stream;
  const DeviceBlockTopology built =
      build_block_topology(fixture.build(stream), 16, d_ff, memory.data(), memory.size(), stream);
  std::vector<float> tokens;
  for (std::int64_t i = 0; i < 40 * columns; ++i) tokens.push_back(static_cast<float>(i));
  const DeviceBuffer<float> x(tokens), rows(static_cast<std::size_t>(built.block_rows_bound * 16 * columns));
  const MutableRowsView matrix{rows.data(), columns, ElementType::fp32};
  gather(built.row_order(), {x.data(), columns, ElementType::fp32}, matrix, columns, stream);
  clear_padding_rows(built, matrix, columns, stream);

  const RowLayout layout = row_layout_from_ids(ArrayView<const std::int32_t>(ids), 6, 16);
  const std::vector<float> values = rows.download();
  bool right = true;
  for (std::int64_t r = 0; r < layout.scheduled_rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::int64_t assignment = layout.row_to_assignment[static_cast<std::size_t>(r)];
      const float expected =
          assignment < 0 ? 0.0f : tokens[static_cast<std::size_t>(assignment / 2 * columns + c)];
      right = right && values[static_cast<std::size_t>(r * columns + c)] == expected;
    }
  CHECK(right);
  CHECK(rows.guards_intact());
}

TEST_CASE("bad blocked topology arguments are refused", "[small]") {
  const TopologyBounds bounds{8, 1, 4, {}};
  CHECK_THROWS_AS(device_block_topology_bytes(bounds, 24, std::vector<std::int64_t>{48}), Error);
  CHECK_THROWS_AS(device_block_topology_bytes(bounds, 64, std::vector<std::int64_t>{96}), Error);
  CHECK_THROWS_AS(device_block_topology_bytes(bounds, 16, std::vector<std::int64_t>{16, 16}), Error);
  CHECK_THROWS_AS(device_block_topology_bytes({1 << 24, 1, 4, {}}, 16,
                                              std::vector<std::int64_t>{std::int64_t{65535} * 16}),
                  Error);
  CHECK_THROWS_AS(build_block_topology({}, 16, std::vector<std::int64_t>{16}, nullptr, 0, nullptr), Error);
}
