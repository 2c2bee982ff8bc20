// Every policy on the worked example (E 4, rows 3 0 130 128), their metadata bytes at T 32768, k 8, E 128,
// d_ff 1024, and the spellings that are refused.
#include "dropless/policy.hpp"

#include <numeric>
#include <vector>

#include "catch.hpp"
#include "dropless/block_topology.hpp"
#include "dropless/error.hpp"
#include "policies/metadata.hpp"

using namespace dropless;

namespace {

const std::vector<std::int64_t> example{3, 0, 130, 128};

ModelShape widths(std::int64_t d_model, std::int64_t d_ff, MlpKind mlp = MlpKind::linear2) {
  ModelShape shape;
  shape.mlp = mlp;
  shape.d_model = d_model;
  shape.d_ff = d_ff;
  return shape;
}

PolicyCost example_cost(const std::string& policy) {
  return make_policy(policy, widths(512, 256)).cost(BatchRows(example, 261, 1));
}

}  // namespace

TEST_CASE("scheduled rows of the worked example") {
  const std::vector<std::pair<std::string, std::int64_t>> expected{
      {"block:16", 288},
      {"block:32", 320},
      {"block:64", 384},
      {"block:128", 512},
      {"block:256", 768},
      {"deepgemm", 512},
      {"deepgemm-masked:64", 384},
      {"deepgemm-masked:128", 512},
      {"vllm:64", 384},
      {"vllm:auto", 384},
      {"tile:128x1", 512},
      {"tile:128x2", 768},
      {"torch", 512},
      {"torch:down", 512},
      {"flat:128", 768},
      {"sonic", 768},
      {"sonic:nr", 512},
      {"max", 520},
      {"capacity:1:megablocks", 260},
      {"capacity:1:megatron-pad", 264},
      {"capacity:1:megatron", 135},
      {"capacity:1:tutel", 264},
      {"align:16", 288},
      {"align:100", 500},
      {"dropless", 288},
      {"dropless:sm90:down", 288},
      {"dropless:portable", 288},
      {"dropless:up", 288},
  };
  for (const auto& [policy, scheduled] : expected) {
    CAPTURE(policy);
    const PolicyCost cost = example_cost(policy);
    CHECK(cost.scheduled_rows == scheduled);
    CHECK(cost.kept_rows + cost.dropped_rows == 261);
    if (policy.rfind("vllm", 0) != 0) CHECK(cost.launched_rows == scheduled);
  }
  CHECK(example_cost("vllm:64").launched_rows == 576);
  CHECK(example_cost("capacity:1:megablocks").kept_rows == 133);
  CHECK(example_cost("capacity:1:megatron-pad").kept_rows == 135);
  const PolicyCost rounded = example_cost("sonic:nr");
  CHECK(rounded.kept_rows == 256);
  CHECK(rounded.dropped_rows == 5);
  CHECK(rounded.added_rows == 0);
  CHECK(example_cost("block:128").metadata_bytes == 136 + 3196);
  CHECK(padding_fraction(512, 261, 0) == Approx(0.490234375));
}

TEST_CASE("policies that look at the batch") {
  SECTION("torch takes 256-row tiles past 128 rows an expert, unless the product is narrow") {
    const std::vector<std::int64_t> rows{129, 130};
    const BatchRows batch(rows, 259, 1);
    CHECK(make_policy("torch").cost(batch).scheduled_rows == 512);
    CHECK(make_policy("torch", widths(2048, 128)).cost(batch).scheduled_rows == 512);
    const std::vector<std::int64_t> more{300, 300};
    CHECK(make_policy("torch").cost(BatchRows(more, 600, 1)).scheduled_rows == 1024);
    CHECK(make_policy("torch", widths(2048, 128)).cost(BatchRows(more, 600, 1)).scheduled_rows == 768);
    CHECK(make_policy("torch:down", widths(64, 128)).cost(BatchRows(more, 600, 1)).scheduled_rows == 768);
  }
  SECTION("vllm launches less where rows are fewer than experts, and its default block follows the tokens") {
    std::vector<std::int64_t> rows(128, 0);
    for (std::size_t e = 0; e < 8; ++e) rows[e * 16] = 1;
    const BatchRows batch(rows, 1, 8);
    CHECK(make_policy("vllm:64").cost(batch).scheduled_rows == 512);
    CHECK(make_policy("vllm:64").cost(batch).launched_rows == 512);
    CHECK(make_policy("vllm:auto").cost(batch).scheduled_rows == 128);
    CHECK_THROWS_WITH(make_policy("vllm:auto").cost(BatchRows(rows, 0, 0)), Catch::Contains("--top-k"));
  }
  SECTION("token rounding adds rows as well as dropping them; halves go to the even multiple") {
    const std::vector<std::int64_t> rows{64, 192, 65, 320};
    const PolicyCost cost = make_policy("sonic:nr").cost(BatchRows(rows, 641, 1));
    CHECK(cost.kept_rows == 0 + 192 + 65 + 256);
    CHECK(cost.added_rows == 64 + 63);
    CHECK(cost.dropped_rows == 64 + 64);
    CHECK(cost.scheduled_rows == 0 + 256 + 256 + 256);
  }
  SECTION("tutel needs tokens") {
    CHECK_THROWS_WITH(make_policy("capacity:1:tutel").cost(BatchRows(example, 0, 0)),
                      Catch::Contains("--top-k"));
  }
  SECTION("a batch without rows schedules nothing") {
    const std::vector<std::int64_t> none(4, 0);
    for (const std::string& name : default_policies(true)) {
      CAPTURE(name);
      CHECK(make_policy(name).cost(BatchRows(none, 0, 0)).scheduled_rows == 0);
    }
  }
}

TEST_CASE("metadata bytes at T 32768, k 8, E 128, d_ff 1024, balanced") {
  constexpr std::int64_t rows = 262144, tokens = 32768, experts = 128;
  const std::vector<std::int64_t> balanced(experts, rows / experts);
  const BatchRows batch(balanced, tokens, 8);
  const auto metadata = [&](const char* name) {
    return make_policy(name, widths(4096, 1024, MlpKind::glu)).cost(batch).metadata_bytes;
  };
  CHECK(megablocks_routing_bytes(rows, experts) == 3147776);
  // 512 + 528 of counts and offsets, two orders of 1 MiB, 128 + 262016 / 128 tiles, 32 of counters.
  CHECK(metadata("dropless") == 512 + 528 + 2 * 1048576 + 16 * (128 + 2047) + 32);
  CHECK(metadata("block:128") == 3147776 + 176136);
  CHECK(metadata("vllm:64") == 1098240);
  CHECK(metadata("sonic") == 3277832);
  CHECK(metadata("flat:128") == 4195328);
  CHECK(metadata("align:16") == 33685504);
  CHECK(metadata("capacity:1:tutel") == 268435456);
  CHECK(metadata("torch") == 516);
  CHECK(tensorrt_llm_metadata_bytes(rows, experts) == 18875400);
  CHECK_FALSE(make_policy("block:128").cost(batch).metadata_bytes.has_value());
  CHECK_FALSE(make_policy("sonic").cost(BatchRows(balanced, 0, 0)).metadata_bytes.has_value());
}

TEST_CASE("policies that are refused") {
  for (const char* text : {"",
                           "blok:64",
                           "block",
                           "block:48",
                           "block:512",
                           "block:64:1",
                           "vllm",
                           "vllm:0",
                           "vllm:x",
                           "tile:128",
                           "tile:128x",
                           "tile:2000000x1",
                           "torch:left",
                           "flat",
                           "sonic:xr",
                           "max:2",
                           "capacity:1",
                           "capacity:0:megatron",
                           "capacity:-1:megatron",
                           "capacity:nan:megatron",
                           "capacity:1:gshard",
                           "align:-4",
                           "dropless:sm80",
                           "dropless:up:sm90",
                           "dropless:sm90:up:x",
                           "deepgemm:128",
                           "deepgemm-masked:32"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(make_policy(text), Error);
  }
  CHECK_THROWS_WITH(make_policy("block:48"), "policy is 'block:48'; expected block:16|32|64|128|256");
}
