// Shapes at which users of other libraries met faults, at full size: index overflows, empty experts, odd
// group starts, fine-grained experts.
#include "product_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// sdd to `n` columns, dsd back to `k`, and the first matrix's gradient.
void require_layer_right(const DeviceRows& rows, std::int64_t k, std::int64_t n) {
  ProductShape shape;
  shape.k = k;
  shape.n = n;
  {
    RowsByWeightsCase up(rows.view(), shape, 1);
    require_right_on_all_paths(up);
  }
  {
    WeightGradientCase gradient(rows.view(), shape, ElementType::bf16, 3);
    require_right_on_all_paths(gradient);
  }
  shape.k = n;
  shape.n = k;
  shape.d_ff = DffDimension::k;
  shape.order = WeightOrder::n_by_k;
  RowsByWeightsCase down(rows.view(), shape, 2);
  require_right_on_all_paths(down);
}

}  // namespace

TEST_CASE("more blocks than 16-bit indices hold: 16 experts of width 4096, and 40000 rows of one",
          "[large]") {
  const auto count = GENERATE(std::vector<std::int32_t>(16, 256),
                              std::vector<std::int32_t>{0, 0, 0, 40000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  require_layer_right(packed_rows(count), 512, 4096);
}

TEST_CASE("more than 2^31 elements of a row matrix", "[large]") {
  // 131072 tokens, 8 experts each, 2048 columns; and 64 rows more.
  const DeviceRows rows = packed_rows({1, 400000, 0, 131071, 131072, 131072, 131072, 124352});
  REQUIRE(rows.view().rows_bound == 131072 * 8 + 64);
  require_layer_right(rows, 64, 2048);
}

TEST_CASE("more than 2^31 elements of weights", "[large]") {
  std::vector<std::int32_t> count(65, 0);
  count[0] = 3;
  count[64] = 20;
  const DeviceRows rows = packed_rows(count);
  ProductShape shape;
  shape.k = 4096;
  shape.n = 8192;
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  RowsByWeightsCase product(rows.view(), shape, 1);
  require_right_on_all_paths(product);
}

TEST_CASE("empty experts give zero gradients", "[large]") {
  require_layer_right(packed_rows({0, 128, 0, 64}), 2048, 768);
  require_layer_right(packed_rows({162, 0, 2577, 446, 0, 83}), 2048, 768);
}

TEST_CASE("group starts that are no multiple of 16 bytes", "[small]") {
  require_layer_right(packed_rows({1, 7, 0, 9}), 40, 24);
  require_layer_right(packed_rows({1, 7, 0, 9}), 33, 21);
}

TEST_CASE("rows behind the last expert's stay what they were, whatever they hold", "[small]") {
  require_layer_right(DeviceRows({0, 5, 64}, {5, 59, 3}, 200), 64, 64);
}

TEST_CASE("fine-grained experts: 48 of width 128", "[large]") {
  std::vector<std::int32_t> count(48);
  for (int e = 0; e < 48; ++e) count[static_cast<std::size_t>(e)] = 4096 * 8 / 48 + e - 23;
  require_layer_right(packed_rows(count), 1536, 256);
}

TEST_CASE("decode: 8 rows of 128 experts", "[large]") {
  std::vector<std::int32_t> count(128, 0);
  for (std::size_t e = 3; e < 128; e += 16) count[e] = 1;
  require_layer_right(packed_rows(count), 2048, 1536);
}
