// FLOPs, bytes and the roofline against figures worked out by hand.
#include "catch.hpp"
#include "dropless/cost.hpp"

using namespace dropless;

TEST_CASE("cost: FLOPs by expert kind") {
  CHECK(mlp_flops(MlpKind::linear2, 3, 5, 7) == 4 * 3 * 5 * 7);
  CHECK(mlp_flops(MlpKind::glu, 3, 5, 7) == 6 * 3 * 5 * 7);
  CHECK(mlp_flops(MlpKind::glu, 0, 5, 7) == 0);
  // Tokens * top_k * columns past 2^31: T 131072, k 8, d_ff 1024.
  CHECK(mlp_flops(MlpKind::glu, 1048576, 2048, 1024) == 13194139533312);
  CHECK_THROWS_AS(mlp_flops(MlpKind::glu, std::int64_t{1} << 40, 1 << 20, 1 << 20), Error);
  CHECK_THROWS_AS(mlp_flops(MlpKind::glu, -1, 5, 7), Error);
}

TEST_CASE("cost: the FLOPs of both products are those of the MLP") {
  for (const MlpKind kind : {MlpKind::linear2, MlpKind::glu}) {
    const ProductCost up = up_product_cost(kind, 261, 3, 512, 256, ElementType::bf16);
    const ProductCost down = down_product_cost(261, 3, 512, 256, ElementType::bf16);
    CHECK(up.flops + down.flops == mlp_flops(kind, 261, 512, 256));
    CHECK(up.weight_bytes + down.weight_bytes == 3 * expert_weight_bytes(kind, 512, 256, ElementType::bf16));
  }
}

TEST_CASE("cost: bytes and intensity of a product") {
  // 10 rows, 2 active experts, [10, 4] x [4, 6] in 16 bits: 2*4*6*2 weight bytes, 10*(4 + 6)*2 activation
  // bytes.
  const ProductCost cost = product_cost(10, 2, 4, 6, ElementType::fp16);
  CHECK(cost.flops == 480);
  CHECK(cost.weight_bytes == 96);
  CHECK(cost.activation_bytes == 200);
  CHECK(cost.intensity() == Approx(480.0 / 296.0));
  CHECK(product_cost(10, 2, 4, 6, ElementType::fp32).bytes() == 2 * cost.bytes());
  CHECK(product_cost(0, 0, 4, 6, ElementType::bf16).intensity() == 0.0);
}

TEST_CASE("cost: the roofline") {
  CHECK(attainable_gflops(4, 80, 1000) == 320);
  CHECK(attainable_gflops(8, 80, 1000) == 640);
  CHECK(attainable_gflops(12.5, 80, 1000) == 1000);
  CHECK(attainable_gflops(400, 80, 1000) == 1000);
  CHECK_THROWS_WITH(attainable_gflops(0, 80, 1000), Catch::Contains("intensity"));
  CHECK_THROWS_WITH(attainable_gflops(4, -80, 1000), Catch::Contains("bandwidth"));
  CHECK_THROWS_WITH(attainable_gflops(4, 80, 0), Catch::Contains("peak"));
}

TEST_CASE("cost: names of MLP kinds and element types") {
  CHECK(mlp_kind_from_name("glu") == MlpKind::glu);
  CHECK(mlp_kind_from_name("linear2") == MlpKind::linear2);
  CHECK_THROWS_WITH(mlp_kind_from_name("swiglu"), Catch::Contains("linear2 or glu"));
  CHECK(element_from_name("bfloat16") == ElementType::bf16);
  CHECK(element_from_name("fp32") == ElementType::fp32);
  CHECK_THROWS_AS(element_from_name("fp8"), Error);
}
