// What every product call promises beyond the right numbers: a row's bits never depend on other rows, the
// same bits every run, no allocation, graphs that serve any routing, an SM limit, and sizes of zero.
#include <algorithm>
#include <numeric>
#include <random>

#include "built_topology.hpp"
#include "device_stream.hpp"
#include "product_case.hpp"
#include "refused_argument.hpp"
#include "routing.hpp"
#include "second_gpu.hpp"
#include "sm90/pair_schedule.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr std::int32_t tokens = 4096, experts = 16;

/// One expert a token, in token order; and a product of it under any grouping into batches.
class BatchesOfTokens {
 public:
  BatchesOfTokens(const ProductShape& product_shape, KernelPath kernel_path)
      : shape(product_shape),
        path(kernel_path),
        weights(experts, shape, 1),
        in(tokens, shape.k, shape, shape.type),
        packed_in(tokens, shape.k, shape, shape.type),
        packed_out(tokens, shape.n, shape, shape.type),
        expert_of_token(random_expert_ids(tokens, 1, experts, 7, 1)) {
    const DeviceRows all({0}, {tokens}, tokens);
    fill_rows(all.view(), in.view(), shape.k, nullptr, 1.0f, 2);
  }

  bool can_run() const {
    const DeviceRows rows = packed_rows(std::vector<std::int32_t>(experts, tokens / experts));
    const auto chosen = shape.d_ff == DffDimension::n ? sdd_path : dsd_path;
    return path == KernelPath::portable ||
           chosen(rows.view(), in.read(), weights.view(), packed_out.view()) == path;
  }

  /// The output in token order, when every `batch` tokens of `sequence` are one call.
  DeviceMatrix outputs(std::vector<std::int32_t> sequence, std::int32_t batch, std::int32_t sm_limit = 0) {
    std::vector<std::int32_t> begin, count, place(tokens);
    for (std::int32_t first = 0; first < tokens; first += batch) {
      const auto from = sequence.begin() + first, to = sequence.begin() + std::min(first + batch, tokens);
      const auto expert = [&](std::int32_t token) {
        return expert_of_token[static_cast<std::size_t>(token)];
      };
      std::stable_sort(from, to, [&](std::int32_t l, std::int32_t r) { return expert(l) < expert(r); });
      for (std::int32_t e = 0, row = first; e < experts; ++e) {
        const auto rows = static_cast<std::int32_t>(
            std::count_if(from, to, [&](std::int32_t token) { return expert(token) == e; }));
        begin.push_back(row);
        count.push_back(rows);
        row += rows;
      }
    }
    for (std::int32_t row = 0; row < tokens; ++row)
      place[static_cast<std::size_t>(sequence[static_cast<std::size_t>(row)])] = row;

    const DeviceBuffer<std::int32_t> order(sequence), inverse(place), all_begins(begin), all_counts(count);
    gather(in, packed_in, order, shape.k);
    packed_out.buffer.poison();
    const DeviceBuffer<unsigned char> memory(expert_rows_bytes(experts, tokens));
    for (std::size_t at = 0; at < begin.size(); at += experts) {
      const ExpertRows rows = prepare_expert_rows(all_begins.data() + at, all_counts.data() + at, experts,
                                                  tokens, memory.data(), memory.size(), nullptr);
      const auto product = shape.d_ff == DffDimension::n ? sdd : dsd;
      product(rows, packed_in.read(), weights.view(), packed_out.view(), {false, sm_limit, path}, nullptr);
    }
    DeviceMatrix out(tokens, shape.n, shape, shape.type);
    gather(packed_out, out, inverse, shape.n);
    return out;
  }

 private:
  void gather(const DeviceMatrix& from, const DeviceMatrix& to, const DeviceBuffer<std::int32_t>& order,
              std::int64_t columns) const {
    const std::int64_t bytes = element_bytes(shape.type);
    gather_bytes(from.buffer.data(), to.buffer.data(), order.data(), tokens, columns * bytes,
                 from.leading_dimension * bytes);
  }

  ProductShape shape;
  KernelPath path;
  DeviceWeights weights;
  DeviceMatrix in, packed_in, packed_out;
  std::vector<std::int32_t> expert_of_token;
};

std::vector<std::int32_t> in_order() {
  std::vector<std::int32_t> sequence(tokens);
  std::iota(sequence.begin(), sequence.end(), 0);
  return sequence;
}

/// Rows of 128 experts, 65552 in all: 4097 tokens with 16 experts each.
std::vector<std::int32_t> rows_of_a_large_batch() {
  std::vector<std::int32_t> count(128);
  for (const std::int32_t expert : random_expert_ids(4097, 16, 128, 11, 1))
    ++count[static_cast<std::size_t>(expert)];
  return count;
}

}  // namespace

TEST_CASE("a row has the same bits alone, in any batch and in any order") {
  ProductShape shape;
  shape.k = 520;
  shape.n = 392;
  shape.type = GENERATE(ElementType::bf16, ElementType::fp16, ElementType::fp32);
  shape.d_ff = GENERATE(DffDimension::n, DffDimension::k);
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.aligned = GENERATE(true, false);
  shape.pad = shape.aligned ? 0 : 1;
  for (const KernelPath path : all_paths) {
    BatchesOfTokens batches(shape, path);
    if (path == KernelPath::sm90 && !batches.can_run()) continue;
    INFO(element_name(shape.type) << " on path " << path_name(path));
    const DeviceMatrix whole = batches.outputs(in_order(), tokens);
    for (const std::int32_t batch : {1, 7, 64, 1000}) {
      INFO("batches of " << batch);
      REQUIRE(differing_bytes(whole, batches.outputs(in_order(), batch)) == 0);
    }
    std::vector<std::int32_t> shuffled = in_order();
    std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
    REQUIRE(differing_bytes(whole, batches.outputs(shuffled, tokens)) == 0);
    REQUIRE(differing_bytes(whole, batches.outputs(shuffled, 300)) == 0);
  }
}

TEST_CASE("a row has the same bits from pairs of blocks, in any batch and in any order, and without pairs") {
  ProductShape shape;
  shape.k = 1032;
  shape.n = 392;
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  BatchesOfTokens batches(shape, KernelPath::sm90);
  if (!batches.can_run()) return;
  REQUIRE(sm90::takes_pairs(tokens, experts, shape.k, 2));
  const DeviceMatrix without = batches.outputs(in_order(), tokens, 1);
  std::vector<std::int32_t> shuffled = in_order();
  std::shuffle(shuffled.begin(), shuffled.end(), std::mt19937(3));
  for (const std::int32_t batch : {7, 64, 1000, tokens}) {
    INFO("batches of " << batch);
    REQUIRE(differing_bytes(without, batches.outputs(in_order(), batch)) == 0);
    REQUIRE(differing_bytes(without, batches.outputs(shuffled, batch)) == 0);
  }
}

TEST_CASE("chunk copies and element copies give the same bits", "[small]") {
  const DeviceRows rows = packed_rows({130, 0, 1, 47});
  ProductShape shape;
  shape.k = GENERATE(16, 100);
  shape.n = 72;
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  RowsByWeightsCase by_chunks(rows.view(), shape, 5);
  shape.aligned = false;
  shape.pad = 1;
  RowsByWeightsCase by_elements(rows.view(), shape, 5);
  by_chunks.run(KernelPath::portable);
  by_elements.run(KernelPath::portable);
  const std::vector<double> left = on_host(by_chunks.out.buffer, shape.type);
  const std::vector<double> right = on_host(by_elements.out.buffer, shape.type);
  for (std::int64_t row = 0; row < rows.view().rows_bound; ++row)
    for (std::int64_t n = 0; n < shape.n; ++n)
      REQUIRE(left[static_cast<std::size_t>(row * by_chunks.out.leading_dimension + n)] ==
              right[static_cast<std::size_t>(row * by_elements.out.leading_dimension + n)]);
}

TEST_CASE("tiles taken from the counter give the bits of tiles dealt in order, and leave it at zero",
          "[small]") {
  const std::vector<std::int32_t> rows_per_expert =
      GENERATE(std::vector<std::int32_t>{0, 300, 1, 0, 70, 161}, std::vector<std::int32_t>{0, 0, 5},
               std::vector<std::int32_t>{0, 0});
  const std::int32_t sm_limit = GENERATE(0, 1, 7);
  const DeviceRows rows = packed_rows(rows_per_expert);
  const DeviceBuffer<std::uint32_t> counter(std::vector<std::uint32_t>{0}),
      others(std::vector<std::uint32_t>{7});
  ExpertRows alone = rows.view(), shared = rows.view();
  alone.tile_counter = counter.data();
  shared.tile_counter = others.data();  // in use by somebody else: not to be touched
  ProductShape shape;
  shape.k = 136;
  shape.n = 1032;  // five feature tiles, of which the last is cut short
  RowsByWeightsCase taken(alone, shape, 5);
  if (!taken.can_run(KernelPath::sm90)) return;
  WeightGradientCase taken_gradient(alone, shape, ElementType::bf16, 6);
  shape.exclusive_rows = false;
  RowsByWeightsCase dealt(shared, shape, 5);
  WeightGradientCase dealt_gradient(shared, shape, ElementType::bf16, 6);
  const auto compare = [&](auto& with, auto& without) {
    without.run(KernelPath::sm90, nullptr, sm_limit);
    for (int run = 0; run < 3; ++run) {
      with.run(KernelPath::sm90, nullptr, sm_limit);
      REQUIRE(download(counter.data(), 1)[0] == 0);
      REQUIRE(differing_bytes(with.out, without.out) == 0);
    }
    REQUIRE(download(others.data(), 1)[0] == 7);
  };
  compare(taken, dealt);
  compare(taken_gradient, dealt_gradient);
}

TEST_CASE("a hundred runs give the same bits") {
  const DeviceRows rows = packed_rows(rows_of_a_large_batch());
  ProductShape shape;
  shape.k = 128;
  shape.n = 256;
  for (const KernelPath path : all_paths) {
    RowsByWeightsCase product(rows.view(), shape, 1);
    WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
    if (!product.can_run(path) || !gradient.can_run(path)) continue;
    INFO("path " << path_name(path));
    product.run(path);
    gradient.run(path);
    product.require_right();
    gradient.require_right();
    DeviceMatrix first(rows.view().rows_bound, shape.n, shape, shape.type);
    DeviceMatrix first_gradient(128 * shape.k, shape.n, shape, shape.type);
    DROPLESS_CUDA_CHECK(cudaMemcpy(first.buffer.data(), product.out.buffer.data(), first.buffer.bytes(),
                                   cudaMemcpyDeviceToDevice));
    DROPLESS_CUDA_CHECK(cudaMemcpy(first_gradient.buffer.data(), gradient.out.buffer.data(),
                                   first_gradient.buffer.bytes(), cudaMemcpyDeviceToDevice));
    for (int run = 1; run < 100; ++run) {
      product.run(path);
      gradient.run(path);
      REQUIRE(differing_bytes(first, product.out) == 0);
      REQUIRE(differing_bytes(first_gradient, gradient.out) == 0);
    }
  }
}

TEST_CASE("adding two halves of the rows' gradients changes nothing beyond rounding", "[small]") {
  ProductShape shape;
  shape.k = 48;
  shape.n = 64;
  const DeviceRows rows = packed_rows({90, 31}), front({0, 90}, {45, 16}, 121),
                   back({45, 106}, {45, 15}, 121);
  const WeightGradientCase whole(rows.view(), shape, ElementType::fp32, 1);
  for (const KernelPath path : all_paths) {
    if (!whole.can_run(path)) continue;
    weight_gradient(front.view(), whole.a.read(), whole.b.read(), whole.gradients, {false, 0, path}, nullptr);
    weight_gradient(back.view(), whole.a.read(), whole.b.read(), whole.gradients, {true, 0, path}, nullptr);
    whole.require_right();
  }
}

TEST_CASE("a captured product serves other routings", "[small]") {
  const std::int32_t count = 64, top_k = 2, expert_count = 8;
  ProductShape shape;
  shape.k = 64;
  shape.n = 96;
  for (const KernelPath path : all_paths) {
    TopologyFixture<std::int32_t> fixture(random_expert_ids(count, top_k, expert_count, 1),
                                          {count, top_k, expert_count, {}});
    const DeviceStream stream;
    const Topology topology = fixture.build(stream);
    stream.synchronize();
    RowsByWeightsCase product(topology.expert_rows(), shape, 1);
    WeightGradientCase gradient(topology.expert_rows(), shape, ElementType::fp32, 1);
    if (!product.can_run(path) || !gradient.can_run(path)) continue;
    INFO("path " << path_name(path));
    const CapturedGraph graph(stream, [&] {
      fixture.build(stream);
      product.enqueue(path, stream);
      gradient.enqueue(path, stream);
    });
    // Skewed, with padding tokens (-1), and with no row at all.
    for (const auto& ids : {random_expert_ids(count, top_k, expert_count, 2, 3),
                            random_expert_ids(count, top_k, expert_count, 3, 0, 40),
                            std::vector<std::int32_t>(count * top_k, -1)}) {
      fixture.ids.upload(ids);
      product.out.buffer.poison();
      gradient.out.buffer.poison();
      graph.replay();
      stream.synchronize();
      product.require_right();
      gradient.require_right();
    }
  }
}

namespace {

/// The thread blocks of the one kernel that `enqueue()` puts on `stream`.
template <class Enqueue>
std::int64_t blocks_of_launch(const DeviceStream& stream, Enqueue enqueue) {
  const cudaGraph_t graph = capture(stream, enqueue);
  std::size_t nodes = 1;
  cudaGraphNode_t node = nullptr;
  cudaKernelNodeParams kernel{};
  const cudaError_t listed = cudaGraphGetNodes(graph, &node, &nodes);
  const cudaError_t asked =
      node == nullptr ? cudaErrorInvalidValue : cudaGraphKernelNodeGetParams(node, &kernel);
  cudaGraphDestroy(graph);
  DROPLESS_CUDA_CHECK(listed);
  DROPLESS_CUDA_CHECK(asked);
  return std::int64_t{kernel.gridDim.x} * kernel.gridDim.y * kernel.gridDim.z;
}

/// The product that `make` builds under several limits: the same bits from as many thread blocks as the limit
/// at most, which can be on no more multiprocessors than they are.
template <class Make>
void check_limited(const Make& make, KernelPath path) {
  auto product = make(), limited = make();
  if (!product.can_run(path)) return;
  INFO(element_name(product.shape.type) << " on path " << path_name(path));
  product.run(path);
  product.require_right();
  const DeviceStream stream;
  for (const std::int32_t sm_limit : {1, 2, 5, 100000}) {
    limited.run(path, nullptr, sm_limit);
    REQUIRE(differing_bytes(product.out, limited.out) == 0);
    const std::int64_t blocks = blocks_of_launch(stream, [&] { limited.enqueue(path, stream, sm_limit); });
    CHECK(blocks >= 1);
    CHECK(blocks <= std::min(sm_limit, current_device_properties().multiprocessors));
  }
}

ProductShape limited_shape(ElementType type) {
  ProductShape shape;
  shape.k = 264;
  shape.n = 528;
  shape.type = type;
  return shape;
}

}  // namespace

TEST_CASE("a limit on multiprocessors is kept by sdd and dsd and changes no bit", "[small]") {
  const DeviceRows rows = packed_rows({300, 0, 150, 1});
  ProductShape shape = limited_shape(GENERATE(ElementType::bf16, ElementType::fp32));
  shape.d_ff = GENERATE(DffDimension::n, DffDimension::k);
  for (const KernelPath path : all_paths)
    check_limited([&] { return RowsByWeightsCase(rows.view(), shape, 1); }, path);
}

TEST_CASE("a limit on multiprocessors is kept by weight gradients and changes no bit", "[small]") {
  const DeviceRows rows = packed_rows({300, 0, 150, 1});
  const ProductShape shape = limited_shape(GENERATE(ElementType::bf16, ElementType::fp32));
  for (const KernelPath path : all_paths)
    check_limited([&] { return WeightGradientCase(rows.view(), shape, shape.type, 1); }, path);
}

TEST_CASE("a limit on multiprocessors is kept by pairs of blocks and changes no bit") {
  const DeviceRows rows = packed_rows({300, 0, 250, 161});
  ProductShape shape;
  shape.k = 1032;
  shape.n = 528;
  REQUIRE(sm90::takes_pairs(rows.view().rows_bound, 4, shape.k, 2));
  check_limited([&] { return RowsByWeightsCase(rows.view(), shape, 1); }, KernelPath::sm90);
}

TEST_CASE("rows of another GPU are refused by every product", "[small]") {
  const DeviceRows rows = packed_rows({3, 0, 5});
  ProductShape shape;
  const RowsByWeightsCase up(rows.view(), shape, 1);
  shape.d_ff = DffDimension::k;
  const RowsByWeightsCase down(rows.view(), shape, 1);
  const WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
  const auto check = [](const auto& product) {
    CHECK(refused_argument([&] { product.enqueue(KernelPath::automatic, nullptr); }) == "rows.row_begin");
  };
  with_second_gpu_current([&] {
    check(up);
    check(down);
    check(gradient);
  });
}

TEST_CASE("experts with counts below zero have no rows", "[small]") {
  const DeviceRows rows({0, 40, 40, 190, 191, 7}, {40, -5, 150, 1, -2147483647 - 1, -1}, 200);
  ProductShape shape;
  shape.k = 72;
  shape.n = 264;
  shape.type = GENERATE(ElementType::bf16, ElementType::fp32);
  shape.accumulate = GENERATE(false, true);
  for (const DffDimension d_ff : {DffDimension::n, DffDimension::k}) {
    shape.d_ff = d_ff;
    RowsByWeightsCase product(rows.view(), shape, 1);
    require_right_on_all_paths(product);
  }
  WeightGradientCase gradient(rows.view(), shape, shape.type, 1);
  require_right_on_all_paths(gradient);
}

TEST_CASE("products allocate nothing") {
  const DeviceRows rows = packed_rows(rows_of_a_large_batch());
  ProductShape shape;
  for (const KernelPath path : all_paths) {
    RowsByWeightsCase product(rows.view(), shape, 1);
    WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
    if (!product.can_run(path) || !gradient.can_run(path)) continue;
    product.run(path);  // the first call loads code
    gradient.run(path);
    std::size_t before = 0, after = 0, total = 0;
    DROPLESS_CUDA_CHECK(cudaMemGetInfo(&before, &total));
    product.run(path);
    gradient.run(path);
    DROPLESS_CUDA_CHECK(cudaMemGetInfo(&after, &total));
    CHECK(before == after);
  }
}

TEST_CASE("products without rows, or without experts", "[small]") {
  ProductShape shape;
  shape.k = 40;
  shape.n = 24;
  const std::int64_t bound = GENERATE(0, 50);
  shape.accumulate = GENERATE(false, true);
  const DeviceRows rows({0, 0, 0}, {0, 0, 0}, bound);
  for (const KernelPath path : all_paths) {
    RowsByWeightsCase product(rows.view(), shape, 1);
    WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
    if (!product.can_run(path) || !gradient.can_run(path)) continue;
    product.run(path);
    product.require_right();
    gradient.run(path);
    gradient.require_right();
  }
  ExpertWeights no_weights;
  no_weights.k = no_weights.n = 8;
  ExpertGradients no_gradients;
  no_gradients.m = no_gradients.n = 8;
  CHECK_NOTHROW(sdd({}, {}, no_weights, {}, {}, nullptr));
  CHECK_NOTHROW(weight_gradient({}, {}, {}, no_gradients, {}, nullptr));
}

TEST_CASE("more tiles than a launch can count are refused", "[small]") {
  const DeviceRows rows({0}, {0}, 0);
  const DeviceBuffer<unsigned char> memory(16);  // of the first elements alone
  ExpertGradients gradients;
  gradients.experts = 1;
  gradients.m = std::int64_t{1} << 26;
  gradients.n = gradients.leading_dimension = std::int64_t{1} << 20;
  gradients.data = memory.data();
  const RowsView a{nullptr, gradients.m, ElementType::bf16}, b{nullptr, gradients.n, ElementType::bf16};
  const ProductOptions options{false, 0, KernelPath::portable};
  CHECK(refused_argument([&] { weight_gradient(rows.view(), a, b, gradients, options, nullptr); }) ==
        "tiles of the product");
}

TEST_CASE("a wanted path that cannot run the operands is refused", "[small]") {
  const DeviceRows rows = packed_rows({3, 5});
  ProductShape shape;
  shape.type = ElementType::fp32;
  const RowsByWeightsCase product(rows.view(), shape, 1);
  CHECK(refused_argument([&] { product.enqueue(KernelPath::sm90, nullptr); }) == "options.path");
  const WeightGradientCase gradient(rows.view(), shape, ElementType::fp32, 1);
  CHECK(refused_argument([&] { gradient.enqueue(KernelPath::sm90, nullptr); }) == "options.path");
  // Tiles taller than the Hopper kernels'.
  const DeviceRows tall = packed_rows({300, 5}, {192, 16});
  shape.type = ElementType::bf16;
  const RowsByWeightsCase over_tall_tiles(tall.view(), shape, 1);
  CHECK(refused_argument([&] { over_tall_tiles.enqueue(KernelPath::sm90, nullptr); }) == "options.path");
}
