// Every refusal of the expert products: a valid call, one argument of it spoiled, and the argument that the
// error names.
#include <functional>
#include <vector>

#include "catch.hpp"
#include "product_checks.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// Addresses for pointers that the checks look at and never follow.
alignas(16) unsigned char memory[1 << 16];
const std::int32_t numbers[4] = {};
const auto* const misaligned = reinterpret_cast<const std::int32_t*>(memory + 2);

ExpertRows valid_rows() {
  ExpertRows rows;
  rows.experts = 2;
  rows.rows_bound = 10;
  rows.row_begin = rows.row_count = numbers;
  rows.tiles = reinterpret_cast<const RowTile*>(memory);
  rows.tile_count = numbers;
  rows.tile_bound = row_tile_bound(10, 2, {});
  return rows;
}

RowsByWeights valid_product() {
  RowsByWeights product{};
  product.rows = valid_rows();
  product.in = {memory, 8, ElementType::bf16};
  product.out = {memory + 1024, 12, ElementType::bf16};
  product.weights.experts = 2;
  product.weights.k = 8;
  product.weights.n = 12;
  product.weights.leading_dimension = 12;
  product.weights.first = {memory + 2048, 96, nullptr};
  product.split_n = false;
  product.ragged_n = true;
  return product;
}

RowsTransposedByRows valid_gradient() {
  RowsTransposedByRows product{};
  product.rows = valid_rows();
  product.a = {memory, 8, ElementType::bf16};
  product.b = {memory + 1024, 12, ElementType::bf16};
  product.dw.experts = 2;
  product.dw.m = 8;
  product.dw.n = 12;
  product.dw.leading_dimension = 12;
  product.dw.expert_stride = 96;
  product.dw.data = memory + 2048;
  return product;
}

template <class Product>
std::string refused_of(Product product, const std::function<void(Product&)>& spoil) {
  spoil(product);
  return refused_argument([&] { product_checks::check(product); });
}
std::string refused(const std::function<void(RowsByWeights&)>& spoil) {
  return refused_of(valid_product(), spoil);
}
std::string refused_gradient(const std::function<void(RowsTransposedByRows&)>& spoil) {
  return refused_of(valid_gradient(), spoil);
}

}  // namespace

TEST_CASE("product checks: rows") {
  CHECK(refused([](auto&) {}) == "nothing");
  CHECK(refused([](auto& p) { p.rows.experts = 4097; }) == "rows.experts");
  CHECK(refused([](auto& p) { p.rows.rows_bound = -1; }) == "rows.rows_bound");
  CHECK(refused([](auto& p) { p.rows.rows_bound = std::int64_t{1} << 31; }) == "rows.rows_bound");
  CHECK(refused([](auto& p) { p.rows.row_begin = nullptr; }) == "rows.row_begin");
  CHECK(refused([](auto& p) { p.rows.row_count = nullptr; }) == "rows.row_count");
  CHECK(refused([](auto& p) { p.rows.row_count = misaligned; }) == "rows.row_count");
  CHECK(refused([](auto& p) { p.rows.tiles = nullptr; }) == "rows.tiles");
  CHECK(refused([](auto& p) { p.rows.tile_count = nullptr; }) == "rows.tile_count");
  CHECK(refused([](auto& p) { p.rows.tile_bound += 1; }) == "rows.tile_bound");
  CHECK(refused([](auto& p) { p.rows.tile_rule.granule = 0; }) == "tile_rule.granule");
  // Tiles cut by one rule and walked by another.
  CHECK(refused([](auto& p) { p.rows.tile_rule = {8, 8}; }) == "rows.tile_bound");
}

TEST_CASE("product checks: weights and matrices") {
  CHECK(refused([](auto& p) { p.weights.experts = 3; }) == "weights.experts");
  CHECK(refused([](auto& p) { p.weights.k = 0; }) == "weights.k");
  CHECK(refused([](auto& p) { p.weights.n = std::int64_t{1} << 31; }) == "weights.n");
  CHECK(refused([](auto& p) { p.weights.leading_dimension = 11; }) == "weights.leading_dimension");
  CHECK(refused([](auto& p) { p.weights.first.data = nullptr; }) == "weights.first.data");
  CHECK(refused([](auto& p) { p.weights.first.data = memory + 2049; }) == "weights.first.data");
  CHECK(refused([](auto& p) { p.weights.first.expert_stride = -1; }) == "weights.first.expert_stride");
  CHECK(refused([](auto& p) { p.weights.first.expert_stride = INT64_MAX; }) == "weights.first");
  CHECK(refused([](auto& p) { p.weights.widths.d_ff = numbers; }) == "weights.widths.d_ff_begin");
  CHECK(refused([](auto& p) { p.in.type = ElementType::fp16; }) == "the input's element type");
  CHECK(refused([](auto& p) { p.out.type = ElementType::fp32; }) == "the output's element type");
  CHECK(refused([](auto& p) { p.in.leading_dimension = 7; }) == "the input.leading_dimension");
  CHECK(refused([](auto& p) { p.out.leading_dimension = 11; }) == "the output.leading_dimension");
  CHECK(refused([](auto& p) { p.in.data = nullptr; }) == "the input.data");
  CHECK(refused([](auto& p) { p.out.data = nullptr; }) == "the output.data");
}

TEST_CASE("product checks: two tensors halve an even dimension") {
  const auto with_second = [](RowsByWeights& p) {
    p.weights.second = {memory + 4096, 48, nullptr};
    p.split_n = true;
  };
  CHECK(refused(with_second) == "nothing");
  CHECK(refused([&](auto& p) { with_second(p), p.weights.n = 11; }) == "weights.n");
  CHECK(refused([&](auto& p) { with_second(p), p.split_n = false, p.weights.k = 7; }) == "weights.k");
  CHECK(refused([&](auto& p) { with_second(p), p.weights.leading_dimension = 5; }) ==
        "weights.leading_dimension");
}

TEST_CASE("product checks: maps of separate tensors are those of matrices of this shape") {
  const auto separate = [](auto& tensor, std::int64_t rows, std::int64_t columns) {
    tensor.matrices = reinterpret_cast<void**>(memory);
    tensor.maps = {memory, rows, columns, 12, ElementType::bf16};
  };
  CHECK(refused([&](auto& p) { separate(p.weights.first, 8, 12); }) == "nothing");
  CHECK(refused([&](auto& p) { separate(p.weights.first, 12, 8); }) == "weights.first.maps.rows");
  CHECK(refused([&](auto& p) { separate(p.weights.first, 8, 11); }) == "weights.first.maps.columns");
  CHECK(refused([&](auto& p) {
          separate(p.weights.first, 8, 12);
          p.weights.leading_dimension = 16;
        }) == "weights.first.maps.leading_dimension");
  CHECK(refused([&](auto& p) {
          separate(p.weights.first, 8, 12);
          p.weights.first.maps.type = ElementType::fp16;
        }) == "weights.first.maps.type");
  CHECK(refused([&](auto& p) {  // each of two tensors holds half of n
          p.weights.second = p.weights.first;
          p.split_n = true;
          separate(p.weights.second, 8, 12);
        }) == "weights.second.maps.columns");
  CHECK(refused_gradient([&](auto& p) { separate(p.dw, 8, 12); }) == "nothing");
  CHECK(refused_gradient([&](auto& p) { separate(p.dw, 12, 12); }) == "dw.maps.rows");
}

TEST_CASE("product checks: the output has memory of its own") {
  CHECK(refused([](auto& p) { p.out.data = memory + 100; }) == "the output");
  CHECK(refused([](auto& p) { p.out.data = memory + 2048; }) == "the output");
  CHECK(refused([](auto& p) { p.weights.first.data = memory + 1200; }) == "the output");
  // Column ranges of one buffer are apart.
  CHECK(refused([](auto& p) {
          p.in = {memory, 20, ElementType::bf16};
          p.out = {memory + 16, 20, ElementType::bf16};
        }) == "nothing");
  CHECK(refused_gradient([](auto& p) { p.dw.data = memory + 8; }) == "dw");
  CHECK(refused_gradient([](auto& p) { p.dw.data = memory + 1040; }) == "dw");
}

TEST_CASE("product checks: gradients") {
  CHECK(refused_gradient([](auto&) {}) == "nothing");
  CHECK(refused_gradient([](auto& p) { p.dw.experts = 1; }) == "dw.experts");
  CHECK(refused_gradient([](auto& p) { p.dw.m = 0; }) == "dw.m");
  CHECK(refused_gradient([](auto& p) { p.dw.n = 0; }) == "dw.n");
  CHECK(refused_gradient([](auto& p) { p.dw.leading_dimension = 11; }) == "dw.leading_dimension");
  CHECK(refused_gradient([](auto& p) { p.dw.expert_stride = 95; }) == "dw.expert_stride");
  CHECK(refused_gradient([](auto& p) { p.dw.data = nullptr; }) == "dw.data");
  CHECK(refused_gradient([](auto& p) { p.dw.type = ElementType::fp16; }) == "dw.type");
  CHECK(refused_gradient([](auto& p) { p.dw.type = ElementType::fp32; }) == "nothing");
  CHECK(refused_gradient([](auto& p) { p.b.type = ElementType::fp16; }) == "b.type");
  CHECK(refused_gradient([](auto& p) { p.a.leading_dimension = 7; }) == "a.leading_dimension");
  // No tile list is needed, and nothing but it.
  CHECK(refused_gradient([](auto& p) { p.rows.tiles = nullptr; }) == "nothing");
  CHECK(refused_gradient([](auto& p) { p.rows.row_begin = nullptr; }) == "rows.row_begin");
}
