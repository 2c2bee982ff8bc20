// What the expert layer promises beyond the right numbers: bits that do not depend on the batch, or on the
// run; reordered and split batches; empty and lopsided ones; graphs that serve any routing.
#include <algorithm>

#include "device_stream.hpp"
#include "expert_mlp_device.hpp"
#include "product_reference.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr auto bf16 = ElementType::bf16;

ExpertMlpShape some_shape(std::int64_t tokens, std::int64_t top_k, std::size_t experts,
                          std::int64_t d_ff = 64, std::int64_t d_model = 64) {
  ExpertMlpShape shape;
  shape.tokens = tokens;
  shape.top_k = top_k;
  shape.d_model = d_model;
  shape.d_ff.assign(experts, d_ff);
  return shape;
}

/// `bits` as rows of equal length, row i of the result being row order[i].
std::vector<unsigned char> reordered(const std::vector<unsigned char>& bits,
                                     const std::vector<std::size_t>& order) {
  const std::size_t row = bits.size() / order.size();
  std::vector<unsigned char> result;
  for (const std::size_t from : order)
    result.insert(result.end(), bits.begin() + static_cast<std::ptrdiff_t>(from * row),
                  bits.begin() + static_cast<std::ptrdiff_t>((from + 1) * row));
  return result;
}
template <class T>
std::vector<T> reordered(const std::vector<T>& values, const std::vector<std::size_t>& order,
                         std::size_t columns) {
  std::vector<T> result;
  for (const std::size_t from : order)
    for (std::size_t c = 0; c < columns; ++c) result.push_back(values[from * columns + c]);
  return result;
}

}  // namespace

TEST_CASE("a token's output and input gradient have the same bits in any batch") {
  constexpr std::int64_t tokens = 900, top_k = 2;
  for (const RoutingWeightPlace place : {RoutingWeightPlace::output, RoutingWeightPlace::input}) {
    ExpertMlpShape shape = some_shape(tokens, top_k, 6, 72, 104);
    shape.weight_place = place;
    ExpertMlpCase host(shape);
    DeviceLayer layer(host, bf16, bf16);
    for (const LayerWay& way : layer_ways) {
      INFO(way.name);
      layer.poison();
      layer.run(way);
      const auto whole = layer.bits();
      // From many rows an expert to few, which decides what is fused; single tokens of the first only.
      for (const std::int64_t batch : {250, 64, 7, 1}) {
        INFO("batches of " << batch);
        const std::int64_t covered = std::min<std::int64_t>(tokens, 30 * batch);
        layer.poison();
        for (std::int64_t first = 0; first < covered; first += batch)
          layer.run(way, first, std::min(batch, covered - first), false);
        const auto parts = layer.bits();
        for (const std::size_t which : bits_by_token) {
          const auto bytes =
              whole[which].size() / static_cast<std::size_t>(tokens) * static_cast<std::size_t>(covered);
          check_same_bits({parts[which].begin(), parts[which].begin() + static_cast<std::ptrdiff_t>(bytes)},
                          {whole[which].begin(), whole[which].begin() + static_cast<std::ptrdiff_t>(bytes)});
        }
      }
    }
  }
}

TEST_CASE("tokens of a batch with more than 2^31 elements of pre-activations have the bits they have alone",
          "[large]") {
  ExpertMlpShape shape = some_shape(131072 + 8, 8, 16, 1024, 64);
  ExpertMlpCase host(shape);
  DeviceLayer layer(host, bf16, bf16);
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    layer.poison();
    layer.run(way);
    const auto whole = layer.bits();
    for (const std::int64_t first : {std::int64_t{0}, shape.tokens - 100}) {
      layer.poison();
      layer.run(way, first, 100, false);
      const auto alone = layer.bits();
      for (const std::size_t which : bits_by_token) {
        const std::size_t bytes = whole[which].size() / static_cast<std::size_t>(shape.tokens);
        const auto begin = static_cast<std::ptrdiff_t>(bytes) * first,
                   end = begin + 100 * static_cast<std::ptrdiff_t>(bytes);
        const bool same = std::equal(whole[which].begin() + begin, whole[which].begin() + end,
                                     alone[which].begin() + begin);
        CHECK(same);
      }
    }
  }
}

TEST_CASE("reordered tokens have the bits of their tokens", "[small]") {
  const ExpertMlpShape shape = some_shape(300, 3, 5);
  std::vector<std::size_t> order(300);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = (7 * i + 3) % order.size();
  ExpertMlpCase host(shape), other(shape);
  other.x = reordered(other.x, order, 64);
  other.out_gradient = reordered(other.out_gradient, order, 64);
  other.routing_weights = reordered(other.routing_weights, order, 3);
  other.ids = reordered(other.ids, order, 3);
  DeviceLayer layer(host, bf16, bf16), shuffled(other, bf16, bf16);
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    layer.run(way);
    shuffled.run(way);
    const auto bits = layer.bits(), of_shuffled = shuffled.bits();
    for (const std::size_t which : bits_by_token)
      check_same_bits(of_shuffled[which], reordered(bits[which], order));
    require_close(shuffled.results(), shuffled.expected(), bf16);
  }
}

TEST_CASE("renumbered experts and reordered slots change results by rounding alone", "[small]") {
  ExpertMlpShape shape = some_shape(120, 3, 4);
  shape.up_storage.separate = shape.down_storage.separate = true;
  ExpertMlpCase renumbered(shape), slots(shape);
  const std::vector<std::size_t> order{2, 3, 0, 1};  // new number to old
  for (Experts* const experts : {&renumbered.up, &renumbered.down}) {
    experts->first_pointers = reordered(experts->first_pointers, order, 1);
    experts->weights.first.matrices = experts->first_pointers;
  }
  renumbered.up_bias = reordered(renumbered.up_bias, order, 128);
  renumbered.down_bias = reordered(renumbered.down_bias, order, 64);
  for (std::int32_t& id : renumbered.ids)
    if (id >= 0) id = (id + 2) % 4;
  std::vector<std::size_t> reversed;
  for (std::size_t token = 0; token < 120; ++token)
    for (const std::size_t slot : {2U, 1U, 0U}) reversed.push_back(token * 3 + slot);
  slots.ids = reordered(slots.ids, reversed, 1);
  slots.routing_weights = reordered(slots.routing_weights, reversed, 1);

  ExpertMlpCase host(shape);
  DeviceLayer layer(host, bf16, bf16), of_renumbered(renumbered, bf16, bf16), of_slots(slots, bf16, bf16);
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    for (DeviceLayer* const each : {&layer, &of_renumbered, &of_slots}) {
      each->run(way);
      require_close(each->results(), each->expected(), bf16);
    }
    // The slots keep their order, so that the sums have the same bits.
    for (const std::size_t which : {out_bits, x_gradient_bits})
      check_same_bits(of_renumbered.bits()[which], layer.bits()[which]);
  }
}

TEST_CASE("micro-batches accumulate to the gradients of the whole batch", "[small]") {
  const auto gradient_type = GENERATE(ElementType::fp32, ElementType::bf16);
  ExpertMlpShape shape = some_shape(200, 2, 4);
  shape.up_storage.two_tensors = true;
  ExpertMlpCase host(shape);
  DeviceLayer layer(host, bf16, gradient_type);
  const NamedValues expected = layer.expected();
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    layer.poison();
    layer.run(way, 0, 30, false);
    layer.run(way, 30, 100, true);
    layer.run(way, 130, 70, true);
    require_close(layer.results(), expected, bf16);
  }
}

TEST_CASE("a layer may add into its output", "[small]") {
  ExpertMlpCase host(some_shape(40, 2, 4));
  DeviceLayer layer(host, bf16, bf16);
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    host.options.accumulate = false;
    layer.infer(way);
    host.options.accumulate = true;
    layer.infer(way);
    std::vector<double> twice = layer.expected()[0].second;
    host.options.accumulate = false;
    for (double& value : twice) value *= 2;
    require_close({{"out", layer.out_values()}}, {{"out", twice}}, bf16);
  }
}

TEST_CASE("a hundred runs of the layer give the same bits") {
  ExpertMlpCase host(some_shape(600, 4, 16, 64, 128));
  DeviceLayer layer(host, bf16, bf16);
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    layer.poison();
    layer.run(way);
    const auto first = layer.bits();
    for (int run = 1; run < 100; ++run) {
      layer.poison();
      layer.run(way);
      const bool same = layer.bits() == first;
      REQUIRE(same);
    }
  }
}

TEST_CASE("layers without tokens, without rows, and with all rows at one expert", "[small]") {
  const std::int64_t tokens = GENERATE(0, 90);
  const std::int32_t id = GENERATE(-1, 2);
  ExpertMlpShape shape = some_shape(tokens, 1, 4);
  shape.weight_place = GENERATE(RoutingWeightPlace::output, RoutingWeightPlace::input);
  ExpertMlpCase host(shape);
  host.ids.assign(host.ids.size(), id);
  DeviceLayer layer(host, bf16, bf16);
  const NamedValues expected = layer.expected();
  for (const LayerWay& way : layer_ways) {
    INFO(way.name << ", " << tokens << " tokens, id " << id);
    layer.poison();
    layer.run(way);
    require_close(layer.results(), expected, bf16);
    REQUIRE(layer.guards_intact());
  }
}

TEST_CASE("experts of other ranks and ids of 64 bits", "[small]") {
  // Of eight experts, 3..6 are here; the CPU sees the others as no rows.
  ExpertMlpCase host(some_shape(70, 2, 4));
  const std::vector<std::int32_t> global = random_expert_ids(70, 2, 8, 5, 0, 10);
  for (std::size_t i = 0; i < global.size(); ++i)
    host.ids[i] = global[i] >= 3 && global[i] < 7 ? global[i] - 3 : -1;
  DeviceLayer layer(host, bf16, bf16);
  const DeviceBuffer<std::int64_t> ids(std::vector<std::int64_t>(global.begin(), global.end()));
  const DeviceBuffer<std::int32_t> map(std::vector<std::int32_t>{-1, -1, -1, 0, 1, 2, 3, -1});
  for (const bool mapped : {false, true}) {
    ExpertMlpBatch batch = layer.batch();
    batch.ids = {ids.data(), true, 8, mapped ? 0 : 3, mapped ? map.data() : nullptr};
    const ExpertMlpOptions options = layer.options(layer_ways[2]);
    const DeviceBuffer<unsigned char> workspace(
        expert_mlp_forward_workspace_bytes(layer.mlp(), batch.bounds, options, false));
    layer.poison();
    const Topology topology = expert_mlp_forward(layer.mlp(), batch, layer.out(), options, {},
                                                 {workspace.data(), workspace.size()}, nullptr);
    CHECK(check(topology, nullptr).non_local > 0);
    require_close({{"out", layer.out_values()}}, {{"out", host.forward()}}, bf16);
  }
}

TEST_CASE("one graph of forward and backward serves other routings", "[small]") {
  for (const LayerWay& way : layer_ways) {
    INFO(way.name);
    ExpertMlpCase host(some_shape(130, 2, 6));
    DeviceLayer layer(host, bf16, ElementType::fp32);
    const ExpertMlpOptions options = layer.options(way);
    const ExpertMlpBatch batch = layer.batch();
    const LayerMemory memory(layer, batch, options);
    const DeviceStream stream;
    const auto enqueue = [&] {
      memory.run_forward(layer, batch, layer.out(), options, stream);
      memory.run_backward(layer, batch, layer.out_gradient(), layer.gradients(), options, stream);
    };
    enqueue();  // the first call loads code
    stream.synchronize();
    const CapturedGraph graph(stream, enqueue);
    for (const auto& ids : {random_expert_ids(130, 2, 6, 21, 3), random_expert_ids(130, 2, 6, 22, 0, 40),
                            std::vector<std::int32_t>(260, -1)}) {
      host.ids = ids;
      layer.ids.upload(ids);
      layer.poison();
      graph.replay();
      stream.synchronize();
      require_close(layer.results(), layer.expected(), bf16);
    }
    CHECK(memory.guards_intact());
  }
}

TEST_CASE("backward leaves what forward saved as it is, and serves twice", "[small]") {
  ExpertMlpCase host(some_shape(50, 2, 4));
  DeviceLayer layer(host, bf16, bf16);
  const ExpertMlpOptions options = layer.options(layer_ways[2]);
  const ExpertMlpBatch batch = layer.batch();
  LayerMemory memory(layer, batch, options);
  memory.run_forward(layer, batch, layer.out(), options);
  const std::vector<unsigned char> before = memory.saved.download();
  for (int run = 0; run < 2; ++run) {
    memory.backward.poison();
    memory.run_backward(layer, batch, layer.out_gradient(), layer.gradients(), options);
    const bool unchanged = memory.saved.download() == before;
    CHECK(unchanged);
    require_close(layer.results(), layer.expected(), bf16);
  }
}

TEST_CASE("each gradient alone has the bits it has among all", "[small]") {
  ExpertMlpShape shape = some_shape(60, 2, 3);
  shape.weight_place = GENERATE(RoutingWeightPlace::output, RoutingWeightPlace::input);
  shape.up_storage.two_tensors = true;
  ExpertMlpCase host(shape);
  DeviceLayer layer(host, bf16, bf16);
  const ExpertMlpOptions options = layer.options(layer_ways[2]);
  const ExpertMlpBatch batch = layer.batch();
  const LayerMemory memory(layer, batch, options);
  memory.run_forward(layer, batch, layer.out(), options);
  const auto backward = [&](const ExpertMlpGradients& gradients) {
    memory.run_backward(layer, batch, layer.out_gradient(), gradients, options);
  };
  backward(layer.gradients());
  const auto all = layer.bits();
  const ExpertMlpGradients wanted = layer.gradients();
  for (std::size_t which = 1; which < all.size(); ++which) {
    INFO("gradient " << which);
    ExpertMlpGradients one;
    if (which == 1) one.x = wanted.x;
    if (which == 2) one.up = wanted.up;
    if (which == 3) one.up_second = wanted.up_second;
    if (which == 4) one.down = wanted.down;
    if (which == 5) one.up_bias = wanted.up_bias;
    if (which == 6) one.down_bias = wanted.down_bias;
    if (which == 7) one.routing_weights = wanted.routing_weights;
    layer.poison();
    backward(one);
    const auto alone = layer.bits();
    for (std::size_t other = 1; other < all.size(); ++other) {
      const bool as_it_should = other == which ? alone[other] == all[other]
                                               : std::all_of(alone[other].begin(), alone[other].end(),
                                                             [](unsigned char byte) { return byte == 0xff; });
      CHECK(as_it_should);
    }
  }
}

TEST_CASE("a limit on multiprocessors changes no bit of the layer", "[small]") {
  ExpertMlpCase host(some_shape(300, 2, 4, 128, 128));
  DeviceLayer layer(host, bf16, bf16);
  layer.run(layer_ways[2]);
  const auto unlimited = layer.bits();
  host.options.sm_limit = 3;
  layer.poison();
  layer.run(layer_ways[2]);
  const bool same = layer.bits() == unlimited;
  CHECK(same);
}

TEST_CASE("the layer refuses short memory and operands in each other's memory", "[small]") {
  ExpertMlpCase host(some_shape(20, 2, 3));
  DeviceLayer layer(host, bf16, bf16);
  const ExpertMlpOptions options = layer.options(layer_ways[2]);
  ExpertMlpBatch batch = layer.batch();
  const LayerMemory memory(layer, batch, options);
  DeviceMemory kept = LayerMemory::view(memory.saved), scratch = LayerMemory::view(memory.forward);
  MutableRowsView out = layer.out();
  const auto run = [&] { expert_mlp_forward(layer.mlp(), batch, out, options, kept, scratch, nullptr); };
  CHECK_NOTHROW(run());
  layer.poison();
  SECTION("saved too short") { --kept.bytes; }
  SECTION("workspace too short") { scratch.bytes = 64; }
  SECTION("workspace misaligned") { scratch.data = memory.forward.data() + 8; }
  SECTION("no workspace") { scratch = {}; }
  SECTION("saved in the workspace") { kept.data = scratch.data; }
  SECTION("out in x") { out.data = const_cast<void*>(batch.x.data); }
  SECTION("out in the workspace") { out.data = scratch.data; }
  SECTION("no routing weights") { batch.routing_weights = nullptr; }
  SECTION("another number of experts") { batch.bounds.experts = 4; }
  CHECK_THROWS_AS(run(), Error);
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());
  for (const auto& bits : layer.bits())
    CHECK(std::all_of(bits.begin(), bits.end(), [](unsigned char byte) { return byte == 0xff; }));
}

TEST_CASE("backward refuses gradients that do not fit", "[small]") {
  ExpertMlpCase host(some_shape(20, 2, 3));
  DeviceLayer layer(host, bf16, bf16);
  const ExpertMlpOptions options = layer.options(layer_ways[2]);
  const ExpertMlpBatch batch = layer.batch();
  const LayerMemory memory(layer, batch, options);
  ExpertMlpGradients gradients = layer.gradients();
  SECTION("another shape") { gradients.up.m = 63; }
  SECTION("a second tensor of one") { gradients.up_second = gradients.up; }
  SECTION("in out_gradient") { gradients.x.data = const_cast<void*>(layer.out_gradient().data); }
  SECTION("two in one memory") { gradients.down.data = gradients.up.data; }
  SECTION("in what forward saved") { gradients.down_bias = reinterpret_cast<float*>(memory.saved.data()); }
  CHECK_THROWS_AS(memory.run_backward(layer, batch, layer.out_gradient(), gradients, options), Error);
}
