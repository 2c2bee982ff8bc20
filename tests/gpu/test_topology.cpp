// The topology builder on the GPU gives the host builder's arrays bit for bit.
#include <algorithm>
#include <memory>

#include "built_topology.hpp"
#include "device_stream.hpp"
#include "policies/metadata.hpp"
#include "routing.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

TopologyBounds bounds_of(std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                         RowTileRule rule = {}) {
  TopologyBounds bounds;
  bounds.tokens = tokens;
  bounds.top_k = top_k;
  bounds.experts = experts;
  bounds.tile_rule = rule;
  return bounds;
}

template <class Id>
void require_host_result(const std::vector<Id>& ids, const TopologyBounds& bounds) {
  const TopologyFixture<Id> fixture(ids, bounds);
  const DeviceStream stream;
  const Topology topology = fixture.build(stream);
  require_equal(download(topology), reference_topology(ids, bounds));
  REQUIRE(fixture.guards_intact());
}

std::vector<std::int64_t> as_int64(const std::vector<std::int32_t>& ids) { return {ids.begin(), ids.end()}; }

}  // namespace

TEST_CASE("topology equals the host builder on small shapes", "[small]") {
  const std::int64_t experts = GENERATE(1, 5, 128);
  const std::int64_t tokens = GENERATE(0, 1, 33, 100);
  const int top_k = static_cast<int>(std::min<std::int64_t>(experts, 4));
  const auto ids = random_expert_ids(tokens, top_k, static_cast<int>(experts), 7, 1, 10);
  require_host_result(ids, bounds_of(tokens, top_k, experts));
  require_host_result(as_int64(ids), bounds_of(tokens, top_k, experts));
}

TEST_CASE("topology equals the host builder over several blocks", "[small]") {
  // 2100 assignments and 1000 experts take three launches.
  const auto ids = random_expert_ids(1050, 2, 1000, 3, 2, 5);
  require_host_result(ids, bounds_of(1050, 2, 1000));
  require_host_result(as_int64(ids), bounds_of(1050, 2, 1000));
}

TEST_CASE("topology equals the host builder on large shapes") {
  struct Shape {
    std::int64_t tokens;
    int top_k, experts, skew;
  };
  const Shape shape = GENERATE(Shape{512, 8, 128, 0}, Shape{513, 8, 128, 1}, Shape{4096, 8, 128, 0},
                               Shape{32768, 8, 128, 2}, Shape{4097, 16, 128, 0}, Shape{8192, 2, 8, 0},
                               Shape{5000, 1, 1, 0}, Shape{3000, 8, 4096, 0}, Shape{64, 128, 4096, 0},
                               Shape{2000, 128, 256, 1}, Shape{70000, 8, 384, 3}, Shape{9000, 4, 385, 0});
  const RowTileRule rule = GENERATE(RowTileRule{128, 16}, RowTileRule{32, 8});
  CAPTURE(shape.tokens, shape.top_k, shape.experts);
  require_host_result(random_expert_ids(shape.tokens, shape.top_k, shape.experts, 11, shape.skew, 3),
                      bounds_of(shape.tokens, shape.top_k, shape.experts, rule));
}

TEST_CASE("topology takes millions of assignments, whose blocks then work in rounds") {
  const auto ids = random_expert_ids(400000, 8, 128, 5, 1, 1);
  require_host_result(ids, bounds_of(400000, 8, 128));
  require_host_result(random_expert_ids(300000, 1, 4096, 6), bounds_of(300000, 1, 4096));
}

TEST_CASE("zero tokens and all ids unrouted give a topology without rows", "[small]") {
  const std::int64_t tokens = GENERATE(0, 1, 8192);
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * 8), -1);
  require_host_result(ids, bounds_of(tokens, 8, 128));
}

TEST_CASE("one expert may have every row") {
  const std::int64_t tokens = GENERATE(100, 50000);
  const int expert = GENERATE(0, 77, 127);
  require_host_result(std::vector<std::int32_t>(static_cast<std::size_t>(tokens), expert),
                      bounds_of(tokens, 1, 128));
}

TEST_CASE("a token of decode gives one tile for each of its experts", "[small]") {
  const std::vector<std::int32_t> ids{3, 100, 7, 127, 0, 64, 31, 90};
  const TopologyFixture<std::int32_t> fixture(ids, bounds_of(1, 8, 128));
  const DeviceStream stream;
  const TopologyArraysOnHost built = download(fixture.build(stream));
  require_equal(built, reference_topology(ids, fixture.bounds));
  CHECK(built.tiles.size() == 4 * 8);
}

TEST_CASE("padding tokens of a graph are not counted", "[small]") {
  std::vector<std::int32_t> ids = random_expert_ids(48, 8, 128, 9);
  ids.resize(64 * 8, -1);
  const TopologyFixture<std::int32_t> fixture(ids, bounds_of(64, 8, 128));
  const DeviceStream stream;
  const TopologyStatus status = check(fixture.build(stream), stream);
  CHECK(status.useful_rows == 48 * 8);
  CHECK(status.unrouted == 16 * 8);
}

TEST_CASE("ids out of range are counted, skipped and reported by check", "[small]") {
  const std::int64_t tokens = GENERATE(40, 1500);
  std::vector<std::int64_t> ids = as_int64(random_expert_ids(tokens, 4, 16, 21));
  ids[3] = 16;
  ids[17] = 1 << 20;
  ids[90] = std::numeric_limits<std::int64_t>::max();
  ids[91] = std::numeric_limits<std::int64_t>::min();
  const TopologyFixture<std::int64_t> fixture(ids, bounds_of(tokens, 4, 16));
  const DeviceStream stream;
  const Topology topology = fixture.build(stream);
  const TopologyArraysOnHost built = download(topology);
  require_equal(built, reference_topology(ids, fixture.bounds));
  CHECK(built.status[0] == 3);
  CHECK(built.status[1] == 1);
  CHECK_THROWS_AS(check(topology, stream), Error);
  CHECK(fixture.guards_intact());
}

TEST_CASE("a rank builds the rows of its own experts", "[small]") {
  const std::int64_t tokens = GENERATE(50, 3000);
  const auto ids = random_expert_ids(tokens, 4, 64, 13, 0, 5);
  const DeviceStream stream;
  SECTION("a range of experts") {
    TopologyFixture<std::int32_t> fixture(ids, bounds_of(tokens, 4, 16));
    fixture.router.global_experts = 64;
    fixture.router.first_expert = 48;
    const Topology topology = fixture.build(stream);
    require_equal(download(topology), reference_topology(ids, fixture.bounds, 64, 48));
    CHECK(check(topology, stream).non_local > 0);
    CHECK(fixture.guards_intact());
  }
  SECTION("an expert map") {
    std::vector<std::int32_t> map(64, -1);
    for (std::int32_t e = 0; e < 10; ++e) map[static_cast<std::size_t>(61 - 6 * e)] = e;
    const DeviceBuffer<std::int32_t> device_map(map);
    TopologyFixture<std::int32_t> fixture(ids, bounds_of(tokens, 4, 10));
    fixture.router.global_experts = 64;
    fixture.router.expert_map = device_map.data();
    require_equal(download(fixture.build(stream)), reference_topology(ids, fixture.bounds, 64, 0, map));
    CHECK(fixture.guards_intact());
  }
}

TEST_CASE("a hundred builds give the same bits") {
  const auto ids = random_expert_ids(4097, 16, 128, 17, 1);
  const TopologyFixture<std::int32_t> fixture(ids, bounds_of(4097, 16, 128));
  const DeviceStream stream;
  const TopologyArraysOnHost first = download(fixture.build(stream));
  bool same = true;
  for (int run = 1; run < 100; ++run) {
    fixture.build(stream);
    same = same && download(fixture.build(stream)) == first;
  }
  CHECK(same);
}

TEST_CASE("a captured build is at most three launches and serves other routings") {
  const std::int64_t tokens = GENERATE(1, 64, 4096);
  const DeviceStream stream;
  const auto bounds = bounds_of(tokens, 8, 128);
  TopologyFixture<std::int32_t> fixture(random_expert_ids(tokens, 8, 128, 1), bounds);
  Topology topology;
  const CapturedGraph graph(stream, [&] { topology = fixture.build(stream); });
  CHECK(graph.nodes() <= 3);
  for (std::uint32_t seed = 2; seed < 5; ++seed) {
    const auto ids = random_expert_ids(tokens, 8, 128, seed, static_cast<int>(seed) - 2, 20);
    fixture.ids.upload(ids);
    graph.replay();
    stream.synchronize();
    require_equal(download(topology), reference_topology(ids, bounds));
  }
  CHECK(fixture.guards_intact());
}

TEST_CASE("builds on several streams do not disturb each other") {
  constexpr std::size_t count = 4;
  std::vector<std::unique_ptr<TopologyFixture<std::int32_t>>> fixtures;
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<Topology> topologies(count);
  const DeviceStream streams[count];
  for (std::size_t i = 0; i < count; ++i) {
    ids.push_back(random_expert_ids(3000, 8, 128, static_cast<std::uint32_t>(30 + i), static_cast<int>(i)));
    fixtures.push_back(std::make_unique<TopologyFixture<std::int32_t>>(ids[i], bounds_of(3000, 8, 128)));
  }
  for (int round = 0; round < 20; ++round)
    for (std::size_t i = 0; i < count; ++i) topologies[i] = fixtures[i]->build(streams[i]);
  for (std::size_t i = 0; i < count; ++i)
    require_equal(download(topologies[i]), reference_topology(ids[i], fixtures[i]->bounds));
}

TEST_CASE("the report states the metadata's bytes", "[small]") {
  for (const TopologyBounds& bounds : {bounds_of(0, 1, 1), bounds_of(3, 2, 7), bounds_of(1000, 4, 60)})
    CHECK(static_cast<std::int64_t>(topology_metadata_bytes(bounds)) ==
          packed_metadata_bytes(bounds.tokens * bounds.top_k, bounds.experts, bounds.tile_rule));
}

TEST_CASE("metadata stays within 0.65 of MegaBlocks' bytes") {
  CHECK(topology_metadata_bytes(bounds_of(32768, 8, 128)) <= 3323912 * 65 / 100);
}

TEST_CASE("bad topology arguments are refused before any launch", "[small]") {
  const std::vector<std::int32_t> ids(8, 0);
  const TopologyFixture<std::int32_t> fixture(ids, bounds_of(8, 1, 4));
  const auto build = [&](const RouterIds& router, std::size_t metadata_bytes) {
    return build_topology(router, fixture.bounds, fixture.metadata.data(), metadata_bytes,
                          fixture.workspace.data(), fixture.workspace.size(), nullptr);
  };
  CHECK_THROWS_AS(build(fixture.router, fixture.metadata.size() - 1), Error);
  CHECK_THROWS_AS(build(RouterIds{}, fixture.metadata.size()), Error);
  RouterIds beyond = fixture.router;
  beyond.global_experts = 6;
  beyond.first_expert = 3;
  CHECK_THROWS_AS(build(beyond, fixture.metadata.size()), Error);
  beyond.first_expert = INT64_MAX;
  CHECK_THROWS_AS(build(beyond, fixture.metadata.size()), Error);
  RouterIds misaligned = fixture.router;
  misaligned.data = fixture.metadata.data() + 2;
  CHECK_THROWS_AS(build(misaligned, fixture.metadata.size()), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(1, 129, 4)), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(1, 0, 4)), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(-1, 1, 4)), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(1, 1, 4097)), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(std::int64_t{1} << 30, 2, 4)), Error);
  CHECK_THROWS_AS(topology_metadata_bytes(bounds_of(1, 1, 4, RowTileRule{100, 16})), Error);
}
