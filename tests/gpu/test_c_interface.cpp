// The C interface gives the bits of the C++ calls, and codes instead of exceptions.
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "built_topology.hpp"
#include "catch.hpp"
#include "dropless/dropless_c.h"
#include "dropless/expert_mlp.hpp"
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

TEST_CASE("the C interface gives the bits of the C++ layer", "[small]") {
  const std::vector<std::int32_t> some = some_ids();
  const DeviceBuffer<std::int32_t> ids(some);
  constexpr std::int64_t d_model = k, d_ff = n;
  const DeviceBuffer<std::uint16_t> x(some_values(tokens * d_model, 1)),
      dout(some_values(tokens * d_model, 2)), up(some_values(experts * d_model * 2 * d_ff, 3)),
      down(some_values(experts * d_ff * d_model, 4));
  const DeviceBuffer<float> routing_weights(std::vector<float>(static_cast<std::size_t>(rows), 0.5f));
  const auto weights_of = [&](const void* data, std::int64_t of_k, std::int64_t of_n) {
    dropless_expert_weights weights{};
    weights.experts = experts;
    weights.k = of_k;
    weights.n = of_n;
    weights.leading_dimension = of_n;
    weights.first = {data, of_k * of_n, nullptr};
    return weights;
  };
  dropless_expert_mlp c_mlp{};
  c_mlp.kind = DROPLESS_GLU;
  c_mlp.activation.limit = 7;
  c_mlp.up = weights_of(up.data(), d_model, 2 * d_ff);
  c_mlp.down = weights_of(down.data(), d_ff, d_model);
  dropless_expert_mlp_batch c_batch{};
  c_batch.bounds = {tokens, top_k, experts, {0, 0}};
  c_batch.ids.data = ids.data();
  c_batch.routing_weights = routing_weights.data();
  c_batch.x = {x.data(), d_model, DROPLESS_BF16};

  ExpertMlp mlp;
  mlp.activation.limit = 7;
  for (auto [weights, from] : {std::pair{&mlp.up, &c_mlp.up}, std::pair{&mlp.down, &c_mlp.down}}) {
    weights->experts = experts;
    weights->k = from->k;
    weights->n = from->n;
    weights->leading_dimension = from->n;
    weights->first = {from->first.data, from->first.expert_stride, nullptr};
  }
  ExpertMlpBatch batch;
  batch.bounds = {tokens, top_k, experts, {}};
  batch.ids.data = ids.data();
  batch.routing_weights = routing_weights.data();
  batch.x = {x.data(), d_model};

  dropless_expert_mlp_memory bytes{};
  const dropless_expert_mlp_options c_options{};
  REQUIRE(dropless_expert_mlp_bytes(&c_mlp, &c_batch.bounds, &c_options, &bytes) == DROPLESS_OK);
  CHECK(bytes.saved == expert_mlp_saved_bytes(mlp, batch.bounds));
  CHECK(bytes.inference_workspace == expert_mlp_forward_workspace_bytes(mlp, batch.bounds, {}, false));
  CHECK(bytes.forward_workspace == expert_mlp_forward_workspace_bytes(mlp, batch.bounds, {}, true));
  CHECK(bytes.backward_workspace == expert_mlp_backward_workspace_bytes(mlp, batch.bounds, {}));

  const DeviceBuffer<unsigned char> saved(bytes.saved),
      workspace(std::max(bytes.forward_workspace, bytes.backward_workspace));
  const DeviceMemory kept{saved.data(), saved.size()}, scratch{workspace.data(), workspace.size()};
  const dropless_device_memory c_kept{saved.data(), saved.size()},
      c_scratch{workspace.data(), workspace.size()};
  const DeviceBuffer<std::uint16_t> out(tokens * d_model), c_out(tokens * d_model), dx(tokens * d_model),
      c_dx(tokens * d_model), dup(experts * d_model * 2 * d_ff), c_dup(experts * d_model * 2 * d_ff);
  const dropless_rows_view c_out_view{c_out.data(), d_model, DROPLESS_BF16},
      c_dout{dout.data(), d_model, DROPLESS_BF16};
  dropless_topology topology{};
  expert_mlp_forward(mlp, batch, {out.data(), d_model}, {}, kept, scratch, nullptr);
  REQUIRE(dropless_expert_mlp_forward(&c_mlp, &c_batch, &c_out_view, &c_options, c_kept, c_scratch, nullptr,
                                      &topology) == DROPLESS_OK);
  CHECK(out.download() == c_out.download());
  dropless_topology_status status{};
  REQUIRE(dropless_check_topology(&topology, nullptr, &status) == DROPLESS_OK);
  CHECK(status.useful_rows == rows);

  ExpertMlpGradients gradients;
  gradients.x = {dx.data(), d_model};
  gradients.up.experts = experts;
  gradients.up.m = d_model;
  gradients.up.n = gradients.up.leading_dimension = 2 * d_ff;
  gradients.up.expert_stride = d_model * 2 * d_ff;
  gradients.up.data = dup.data();
  dropless_expert_mlp_gradients c_gradients{};
  c_gradients.x = {c_dx.data(), d_model, DROPLESS_BF16};
  c_gradients.up = {DROPLESS_BF16,      experts,      d_model, 2 * d_ff, 2 * d_ff,
                    d_model * 2 * d_ff, c_dup.data(), nullptr};
  expert_mlp_backward(mlp, batch, {dout.data(), d_model}, gradients, {}, kept, scratch, nullptr);
  REQUIRE(dropless_expert_mlp_backward(&c_mlp, &c_batch, &c_dout, &c_gradients, &c_options, c_kept, c_scratch,
                                       nullptr) == DROPLESS_OK);
  CHECK(dx.download() == c_dx.download());
  CHECK(dup.download() == c_dup.download());
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
