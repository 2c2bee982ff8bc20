// The expert products against double sums: every operand form of the contract on its own, and 200 random
// shapes that mix them, on every path.
#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

#include "dropless/reference.hpp"
#include "product_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

void require_sdd_and_dsd(const ExpertRows& rows, ProductShape shape) {
  for (const DffDimension d_ff : {DffDimension::n, DffDimension::k}) {
    shape.d_ff = d_ff;
    INFO((d_ff == DffDimension::n ? "sdd" : "dsd"));
    RowsByWeightsCase product(rows, shape, 1);
    require_right_on_all_paths(product);
  }
}

/// A tall expert, an empty one, a single row, and tails on both sides of a tile.
const std::vector<std::int32_t> uneven_rows{130, 0, 1, 64, 200, 17};

HostExpertRows host_rows(const std::vector<std::int64_t>& begin, const std::vector<std::int64_t>& count) {
  return {begin, count};
}

}  // namespace

TEST_CASE("the GPU's double reference agrees with the CPU's", "[small]") {
  const std::vector<std::int64_t> begin{0, 3, 9, 9}, count{3, 5, 0, 4};  // row 8 belongs to nobody
  const DeviceRows rows({0, 3, 9, 9}, {3, 5, 0, 4}, 13);
  const auto order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  const auto d_ff = GENERATE(DffDimension::n, DffDimension::k);
  const bool two_tensors = GENERATE(false, true), narrowed = GENERATE(false, true);
  ProductShape shape;
  shape.k = 12;
  shape.n = 10;
  shape.order = order;
  shape.d_ff = d_ff;
  shape.two_tensors = two_tensors;
  shape.pad = 1;
  shape.aligned = false;
  if (narrowed) shape.widths = {10, 4, 0, 6};
  const RowsByWeightsCase product(rows.view(), shape, 3);

  const std::vector<double> x = on_host(product.in.buffer, shape.type);
  const std::vector<double> first = product.weights.first_on_host();
  const std::vector<double> second = product.weights.second_on_host();
  const std::vector<std::int64_t> widths(shape.widths.begin(), shape.widths.end());
  std::vector<std::int64_t> width_begin;
  for (std::int64_t sum = 0; const std::int64_t width : widths) {
    width_begin.push_back(sum);
    sum += two_tensors ? width / 2 : width;
  }
  const ExpertWeights& device = product.weights.view();
  HostExpertWeights<double> weights;
  weights.experts = 4;
  weights.k = shape.k;
  weights.n = shape.n;
  weights.order = order;
  weights.leading_dimension = device.leading_dimension;
  weights.first = {first.data(), device.first.expert_stride, {}};
  if (two_tensors) weights.second = {second.data(), device.second.expert_stride, {}};
  weights.d_ff = widths;
  weights.d_ff_begin = width_begin;

  const std::size_t elements = static_cast<std::size_t>(13 * shape.n);
  const DeviceBuffer<double> device_sums(elements);
  const ProductErrors errors = product.errors(device_sums.data());
  const std::vector<double> sums = device_sums.download();
  CHECK(errors.beyond_bound > 0);  // nothing was computed yet: the output is poison
  CHECK(errors.stray_writes == 0);

  std::vector<double> expected = sums;  // what neither writes stays equal
  for (std::size_t r = 0; r < 13; ++r)
    for (std::size_t e = 0; e < 4; ++e)
      if (static_cast<std::int64_t>(r) >= begin[e] && static_cast<std::int64_t>(r) < begin[e] + count[e])
        for (std::int64_t n = 0; n < (narrowed && d_ff == DffDimension::n ? widths[e] : shape.n); ++n)
          expected[r * static_cast<std::size_t>(shape.n) + static_cast<std::size_t>(n)] = -1e9;
  const HostRowsView<const double> in{x.data(), product.in.leading_dimension};
  const HostRowsView<double> out{expected.data(), shape.n};
  if (d_ff == DffDimension::n)
    reference_sdd(host_rows(begin, count), in, weights, out);
  else
    reference_dsd(host_rows(begin, count), in, weights, out);
  for (std::size_t i = 0; i < elements; ++i)
    if (!std::isnan(expected[i])) CHECK(sums[i] == Approx(expected[i]).epsilon(1e-12).margin(1e-12));
}

TEST_CASE("the GPU's double weight gradient agrees with the CPU's", "[small]") {
  const std::vector<std::int64_t> begin{0, 3, 9, 9}, count{3, 5, 0, 4};
  const DeviceRows rows({0, 3, 9, 9}, {3, 5, 0, 4}, 13);
  ProductShape shape;
  shape.k = 7;
  shape.n = 5;
  shape.aligned = false;
  const WeightGradientCase product(rows.view(), shape, ElementType::fp32, 5);
  const std::vector<double> a = on_host(product.a.buffer, shape.type);
  const std::vector<double> b = on_host(product.b.buffer, shape.type);
  const DeviceBuffer<double> sums(4 * 7 * 5);
  product.errors(sums.data());
  std::vector<double> expected(4 * 7 * 5);
  HostExpertGradients<double> gradients{4, 7, 5, 5, 35, expected.data()};
  reference_weight_gradient(host_rows(begin, count),
                            HostRowsView<const double>{a.data(), product.a.leading_dimension},
                            HostRowsView<const double>{b.data(), product.b.leading_dimension}, gradients);
  const std::vector<double> actual = sums.download();
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(actual[i] == Approx(expected[i]).epsilon(1e-12).margin(1e-12));
}

TEST_CASE("sdd and dsd: every type and weight order", "[small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape shape;
  shape.k = 136;
  shape.n = 264;
  shape.type = GENERATE(ElementType::bf16, ElementType::fp16, ElementType::fp32);
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.accumulate = GENERATE(false, true);
  require_sdd_and_dsd(rows.view(), shape);
}

TEST_CASE("sdd and dsd: widths that no vector load fits", "[small]") {
  const DeviceRows rows = packed_rows({33, 0, 1, 150});
  ProductShape shape;
  shape.k = GENERATE(1, 17, 99);
  shape.n = GENERATE(1, 7, 301);
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.aligned = GENERATE(false, true);
  require_sdd_and_dsd(rows.view(), shape);
}

TEST_CASE("sdd and dsd: two tensors, separate tensors, padded rows", "[small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape shape;
  shape.k = GENERATE(128, 52);
  shape.n = GENERATE(512, 30);
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.two_tensors = GENERATE(false, true);
  shape.separate = GENERATE(false, true);
  shape.pad = GENERATE(0, 3);
  require_sdd_and_dsd(rows.view(), shape);
}

TEST_CASE("sdd and dsd: experts of different widths", "[small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape shape;
  shape.k = 288;
  shape.n = 288;
  shape.widths = GENERATE(std::vector<std::int32_t>{288, 16, 40, 0, 128, 256},
                          std::vector<std::int32_t>{2, 288, 34, 98, 0, 6});
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.two_tensors = GENERATE(false, true);
  shape.separate = GENERATE(false, true);
  require_sdd_and_dsd(rows.view(), shape);
}

TEST_CASE("sdd and dsd: a receive buffer [experts, capacity, d] and other gaps", "[small]") {
  const auto [begin, bound] =
      GENERATE(std::pair{std::vector<std::int32_t>{0, 70, 140, 210}, std::int64_t{280}},
               std::pair{std::vector<std::int32_t>{5, 300, 60, 130}, std::int64_t{333}});
  const DeviceRows rows(begin, {37, 0, 70, 1}, bound);
  ProductShape shape;
  shape.k = 72;
  shape.n = 96;
  require_sdd_and_dsd(rows.view(), shape);
  WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 1);
  require_right_on_all_paths(gradient);
}

TEST_CASE("sdd and dsd: tile rules other than the usual one", "[small]") {
  ProductShape shape;
  shape.k = 64;
  shape.n = 80;
  const DeviceRows rows = packed_rows(uneven_rows, GENERATE(RowTileRule{16, 8}, RowTileRule{64, 16},
                                                            RowTileRule{112, 16}, RowTileRule{128, 64}));
  require_sdd_and_dsd(rows.view(), shape);
}

TEST_CASE("weight gradients: every type, float or 16-bit, overwritten or added to", "[small]") {
  const DeviceRows rows = packed_rows(uneven_rows);
  ProductShape shape;
  shape.k = 136;
  shape.n = 264;
  shape.type = GENERATE(ElementType::bf16, ElementType::fp16, ElementType::fp32);
  shape.accumulate = GENERATE(false, true);
  shape.separate = GENERATE(false, true);
  for (const ElementType type : {shape.type, ElementType::fp32}) {
    WeightGradientCase product(rows.view(), shape, type, 1);
    require_right_on_all_paths(product);
  }
}

TEST_CASE("weight gradients: widths that no vector load fits", "[small]") {
  const DeviceRows rows = packed_rows({33, 0, 1, 150});
  ProductShape shape;
  shape.k = GENERATE(1, 17, 129);
  shape.n = GENERATE(1, 7, 301);
  shape.aligned = GENERATE(false, true);
  shape.pad = GENERATE(0, 5);
  WeightGradientCase product(rows.view(), shape, ElementType::bf16, 1);
  require_right_on_all_paths(product);
}

TEST_CASE("weight gradients: tiles that share columns, in boxes wide and narrow", "[small]") {
  if (!gpu_has(KernelPath::sm90)) return;
  ProductShape shape;
  std::tie(shape.k, shape.n) = GENERATE(std::pair{520, 512}, std::pair{392, 320}, std::pair{257, 264},
                                        std::pair{648, 264}, std::pair{776, 576}, std::pair{1160, 264});
  shape.accumulate = GENERATE(false, true);
  shape.pad = shape.k > 600 ? 8 : 0;
  // Some experts have more than one and a half times the mean rows, and their tiles an order of their own.
  const DeviceRows rows = shape.k > 700 ? packed_rows({230, 0, 190, 64, 500, 256, 193})
                                        : packed_rows({130, 0, 1, 64, 192, 17, 128, 65, 300, 190, 33});
  shape.type = shape.accumulate ? ElementType::fp16 : ElementType::bf16;
  shape.separate = shape.n == 320;
  const bool floats = GENERATE(false, true);
  WeightGradientCase product(rows.view(), shape, floats ? ElementType::fp32 : shape.type, 1);
  for (const std::int32_t sm_limit : {1, 3}) {  // few blocks, so that most experts are computed in runs
    INFO(sm_limit << " multiprocessors");
    product.run(KernelPath::sm90, nullptr, sm_limit);
    product.require_right();
  }
}

TEST_CASE("weight gradients: experts of few rows, whose rows are fetched ahead", "[small]") {
  if (!gpu_has(KernelPath::sm90)) return;
  struct Example {
    std::int64_t k, n, pad;
    bool gaps;
    ElementType gradient;
  };
  const Example example =
      GENERATE(Example{520, 512, 0, false, ElementType::bf16}, Example{257, 264, 3, true, ElementType::bf16},
               Example{520, 512, 1, true, ElementType::fp32}, Example{4, 8, 0, true, ElementType::bf16});
  const std::vector<std::int32_t> counts{30, 0, 90, 1, 64, -1, 100, 40, 63, 12, 300, 5, 7};
  const std::vector<std::int32_t> begins{900, 0, 1, 100, 110, 200, 300, 500, 400, 190, 940, 600, 620};
  const DeviceRows rows = example.gaps ? DeviceRows(begins, counts, 1240)
                                       : packed_rows({30, 0, 90, 1, 64, 0, 100, 40, 63, 12, 300, 5, 7});
  ProductShape shape;
  shape.k = example.k, shape.n = example.n, shape.pad = example.pad;
  shape.accumulate = example.pad != 0;
  WeightGradientCase product(rows.view(), shape, example.gradient, 1);
  for (const std::int32_t sm_limit : {0, 3}) {
    INFO(sm_limit << " multiprocessors");
    product.run(KernelPath::sm90, nullptr, sm_limit);
    product.require_right();
  }
}

TEST_CASE("weight gradients: one expert, padded rows of the gradient in wide boxes", "[small]") {
  if (!gpu_has(KernelPath::sm90)) return;
  const DeviceRows rows = packed_rows({GENERATE(0, 60, 200)});
  ProductShape shape;
  shape.k = 136;
  shape.n = 320;
  shape.pad = 2;
  shape.accumulate = GENERATE(false, true);
  WeightGradientCase product(rows.view(), shape, shape.type, 1);
  product.run(KernelPath::sm90);
  product.require_right();
}

TEST_CASE("two experts swapped are noticed", "[small]") {
  const DeviceRows rows = packed_rows({40, 60, 24});
  ProductShape shape;
  shape.k = 64;
  shape.n = 64;
  RowsByWeightsCase product(rows.view(), shape, 1);
  const DeviceRows swapped({0, 40, 100}, {40, 60, 24}, 124);
  product.run(KernelPath::portable);
  REQUIRE(product.errors().beyond_bound == 0);
  const ExpertWeights& weights = product.weights.view();
  auto* base = static_cast<const std::uint16_t*>(weights.first.data);
  const std::int64_t stride = weights.first.expert_stride;
  const DeviceBuffer<const void*> matrices(std::vector<const void*>{base + stride, base, base + 2 * stride});
  ExpertWeights exchanged = weights;
  exchanged.first = {nullptr, 0, matrices.data()};
  for (const KernelPath path : all_paths) {
    if (path == KernelPath::sm90 &&
        sdd_path(rows.view(), product.in.read(), exchanged, product.out.view()) != path)
      continue;
    sdd(rows.view(), product.in.read(), exchanged, product.out.view(), {false, 0, path}, nullptr);
    CHECK(product.errors().beyond_bound > 80 * 64);  // nearly every element of 100 rows
  }
}

TEST_CASE("200 random MoE shapes") {
  std::mt19937 random(2024);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 200; ++round) {
    const std::int64_t experts = draw(1, round % 4 == 0 ? 300 : 24);
    std::vector<std::int32_t> begin, count;
    std::int64_t bound = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      const std::int64_t kind = draw(0, 9);
      const std::int64_t rows = kind < 3 ? 0 : kind < 5 ? 1 : kind < 9 ? draw(2, 40) : draw(41, 400);
      if (draw(0, 3) == 0) bound += draw(0, 9);  // a gap
      begin.push_back(static_cast<std::int32_t>(bound));
      count.push_back(static_cast<std::int32_t>(rows));
      bound += rows;
    }
    ProductShape shape;
    shape.type = draw(0, 4) < 3 ? ElementType::bf16 : draw(0, 1) == 0 ? ElementType::fp16 : ElementType::fp32;
    shape.two_tensors = draw(0, 2) == 0;
    shape.aligned = draw(0, 2) != 0;
    const std::int64_t step = draw(0, 1) == 0 ? 8 : 1, parts = shape.two_tensors ? 2 : 1;
    shape.k = draw(1, 200 / step) * step * parts;
    shape.n = draw(1, 200 / step) * step * parts;
    shape.order = draw(0, 1) == 0 ? WeightOrder::k_by_n : WeightOrder::n_by_k;
    shape.separate = draw(0, 2) == 0;
    shape.pad = draw(0, 2);
    shape.accumulate = draw(0, 3) == 0;
    shape.d_ff = draw(0, 1) == 0 ? DffDimension::n : DffDimension::k;
    if (draw(0, 3) == 0)
      for (std::int64_t e = 0; e < experts; ++e)
        shape.widths.push_back(static_cast<std::int32_t>(
            draw(0, (shape.d_ff == DffDimension::n ? shape.n : shape.k) / parts) * parts));
    INFO("round " << round << ", experts " << experts << ", rows " << bound << ", k " << shape.k << ", n "
                  << shape.n << ", type " << element_name(shape.type) << ", two tensors " << shape.two_tensors
                  << ", separate " << shape.separate << ", widths " << !shape.widths.empty() << ", aligned "
                  << shape.aligned << ", accumulate " << shape.accumulate << ", sdd "
                  << (shape.d_ff == DffDimension::n) << ", k by n " << (shape.order == WeightOrder::k_by_n));
    const DeviceRows rows(begin, count, bound);
    RowsByWeightsCase product(rows.view(), shape, static_cast<std::uint32_t>(round));
    require_right_on_all_paths(product);
    WeightGradientCase gradient(rows.view(), shape, draw(0, 1) == 0 ? shape.type : ElementType::fp32,
                                static_cast<std::uint32_t>(round));
    require_right_on_all_paths(gradient);
  }
}
