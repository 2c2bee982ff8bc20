// The C interface gives the bits of the C++ calls, and codes instead of exceptions.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "built_topology.hpp"
#include "catch.hpp"
#include "dropless/dropless_c.h"
#include "dropless/expert_products.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::int64_t tokens = 200, top_k = 2, experts = 5, k = 64, n = 96, rows = tokens * top_k;

std::vector<std::int32_t> some_ids() {
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < rows; ++i) ids.push_back(static_cast<std::int32_t>(i * i % (experts - 1)));
  return ids;
}

/// bf16 values between -1 and 1: the upper half of a float's bits.
std::vector<std::uint16_t> some_values(std::int64_t count, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<std::uint16_t> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = uniform(random);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    values.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return values;
}

/// One batch through both interfaces: memory, and the topology built by each.
struct BothInterfaces {
  explicit BothInterfaces(const std::vector<std::int32_t>& expert_ids)
      : fixture(expert_ids, {tokens, top_k, experts, {}}), topology(fixture.build(nullptr)) {
    const dropless_topology_bounds bounds{tokens, top_k, experts, {0, 0}};
    std::size_t metadata_bytes = 0, workspace_bytes = 0;
    REQUIRE(dropless_topology_bytes(&bounds, &metadata_bytes, &workspace_bytes) == DROPLESS_OK);
    REQUIRE(metadata_bytes == fixture.metadata.size());
    REQUIRE(workspace_bytes == fixture.workspace.size());
    dropless_router_ids ids{};
    ids.data = fixture.ids.data();
    REQUIRE(dropless_build_topology(&ids, &bounds, metadata.data(), metadata.size(), fixture.workspace.data(),
                                    fixture.workspace.size(), nullptr, &c_topology) == DROPLESS_OK);
  }

  TopologyFixture<std::int32_t> fixture;
  Topology topology;
  DeviceBuffer<unsigned char> metadata{fixture.metadata.size()};
  dropless_topology c_topology{};
};

}  // namespace

TEST_CASE("the C interface gives the bits of the C++ products") {
  const BothInterfaces both(some_ids());
  const DeviceBuffer<std::uint16_t> x(some_values(rows * k, 1)), weights(some_values(experts * k * n, 2));
  const DeviceBuffer<std::uint16_t> h(rows * n), c_h(rows * n), y(rows * k), c_y(rows * k);
  const DeviceBuffer<std::uint16_t> dw(experts * k * n), c_dw(experts * k * n);
  const dropless_product_options c_options{};

  ExpertWeights w1;
  w1.experts = experts;
  w1.k = k;
  w1.n = n;
  w1.leading_dimension = n;
  w1.first = {weights.data(), k * n, nullptr};
  dropless_expert_weights c_w1{};
  c_w1.experts = experts;
  c_w1.k = k;
  c_w1.n = n;
  c_w1.leading_dimension = n;
  c_w1.first = {weights.data(), k * n, nullptr};
  const dropless_rows_view c_x{x.data(), k, DROPLESS_BF16}, c_h_view{c_h.data(), n, DROPLESS_BF16},
      c_y_view{c_y.data(), k, DROPLESS_BF16};

  sdd(both.topology.expert_rows(), {x.data(), k}, w1, {h.data(), n}, {}, nullptr);
  REQUIRE(dropless_sdd(&both.c_topology.rows, &c_x, &c_w1, &c_h_view, &c_options, nullptr) == DROPLESS_OK);
  CHECK(h.download() == c_h.download());

  // The same memory read as [n, k] from the other side: dX = dH W1^T.
  dropless_expert_weights c_transposed = c_w1;
  c_transposed.k = n;
  c_transposed.n = k;
  c_transposed.order = DROPLESS_N_BY_K;
  dsd(both.topology.expert_rows(), {h.data(), n}, transposed(w1), {y.data(), k}, {}, nullptr);
  REQUIRE(dropless_dsd(&both.c_topology.rows, &c_h_view, &c_transposed, &c_y_view, &c_options, nullptr) ==
          DROPLESS_OK);
  CHECK(y.download() == c_y.download());

  ExpertGradients gradients;
  gradients.experts = experts;
  gradients.m = k;
  gradients.n = n;
  gradients.leading_dimension = n;
  gradients.expert_stride = k * n;
  gradients.data = dw.data();
  const dropless_expert_gradients c_gradients{DROPLESS_BF16, experts, k, n, n, k * n, c_dw.data(), nullptr};
  weight_gradient(both.topology.expert_rows(), {x.data(), k}, {h.data(), n}, gradients, {}, nullptr);
  REQUIRE(dropless_weight_gradient(&both.c_topology.rows, &c_x, &c_h_view, &c_gradients, &c_options,
                                   nullptr) == DROPLESS_OK);
  CHECK(dw.download() == c_dw.download());
}

TEST_CASE("the C interface reports ids out of range when they are checked") {
  std::vector<std::int32_t> ids = some_ids();
  ids[3] = -1;
  dropless_topology_status status{};
  {
    const BothInterfaces both(ids);
    REQUIRE(dropless_check_topology(&both.c_topology, nullptr, &status) == DROPLESS_OK);
    CHECK(status.unrouted == 1);
    CHECK(status.useful_rows == rows - 1);
  }
  ids[5] = static_cast<std::int32_t>(experts);
  const BothInterfaces both(ids);
  CHECK(dropless_check_topology(&both.c_topology, nullptr, &status) == DROPLESS_INVALID_ARGUMENT);
  CHECK_FALSE(std::string(dropless_last_error()).empty());
}
