// What the expert layer refuses before it launches anything, each with the argument's name.
#include "catch.hpp"
#include "expert_mlp_checks.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::expert_mlp_checks;
using namespace dropless::test;

namespace {

/// An address that nothing reads: operands lie megabytes apart.
void* address(std::uintptr_t megabyte) { return reinterpret_cast<void*>((megabyte + 1) << 20); }

ExpertWeights weights(std::int64_t k, std::int64_t n, std::uintptr_t megabyte) {
  ExpertWeights result;
  result.experts = 4;
  result.k = k;
  result.n = n;
  result.leading_dimension = n;
  result.first = {address(megabyte), k * n, nullptr};
  return result;
}

ExpertGradients gradients_of(std::int64_t m, std::int64_t n, std::uintptr_t megabyte) {
  ExpertGradients result;
  result.experts = 4;
  result.m = m;
  result.n = n;
  result.leading_dimension = n;
  result.expert_stride = m * n;
  result.data = address(megabyte);
  return result;
}

/// A valid layer of 4 experts, d_model 32, d_ff 48, over 10 tokens with 2 experts each, and its gradients.
struct Call {
  ExpertMlp mlp;
  ExpertMlpBatch batch;
  ExpertMlpOptions options;
  ExpertMlpGradients gradients;

  Call() {
    mlp.up = weights(32, 96, 0);
    mlp.down = weights(48, 32, 1);
    batch.bounds = {10, 2, 4, {}};
    batch.ids.data = address(2);
    batch.routing_weights = static_cast<const float*>(address(3));
    batch.x = {address(4), 32};
    gradients.x = {address(5), 32};
    gradients.up = gradients_of(32, 96, 6);
    gradients.down = gradients_of(48, 32, 7);
    gradients.routing_weights = static_cast<float*>(address(8));
  }
  void check() const {
    Operands operands = check_batch(mlp, batch, options);
    check_gradients(operands, mlp, gradients, options, 10, 20);
    operands.check();
  }
};

/// Requires that the changed call is refused for `argument`.
template <class Change>
void require_refused(const std::string& argument, Change change) {
  Call call;
  change(call);
  CHECK(refused_argument([&] { call.check(); }) == argument);
}

}  // namespace

TEST_CASE("a layer whose operands fit together is accepted", "[checks]") {
  CHECK_NOTHROW(Call().check());
  Call without_weights;
  without_weights.options.weight_place = RoutingWeightPlace::none;
  without_weights.batch.routing_weights = nullptr;
  without_weights.gradients = {};
  CHECK_NOTHROW(without_weights.check());
  Call of_no_tokens;
  of_no_tokens.batch = {};
  of_no_tokens.batch.bounds = {0, 2, 4, {}};
  of_no_tokens.batch.x.leading_dimension = 32;
  CHECK_NOTHROW(of_no_tokens.check());
}

TEST_CASE("a layer whose tensors do not fit each other is refused by name", "[checks]") {
  require_refused("mlp.down.experts", [](Call& call) { call.mlp.down.experts = 3; });
  require_refused("mlp.up.n", [](Call& call) { call.mlp.kind = MlpKind::linear2; });
  require_refused("mlp.down.n", [](Call& call) { call.mlp.down.n = 40; });
  require_refused("mlp.down.type", [](Call& call) { call.mlp.down.type = ElementType::fp16; });
  require_refused("mlp.up.type", [](Call& call) { call.mlp.up.type = ElementType::fp32; });
  require_refused("mlp.down.second", [](Call& call) { call.mlp.down.second = call.mlp.down.first; });
  require_refused("mlp.down.widths.d_ff", [](Call& call) {
    call.mlp.up.widths.d_ff = static_cast<const std::int32_t*>(address(20));
  });
  require_refused("activation.function",
                  [](Call& call) { call.mlp.activation.function = ActivationFunction::relu_squared; });
}

TEST_CASE("a batch that does not fit its layer is refused by name", "[checks]") {
  require_refused("bounds.experts", [](Call& call) { call.batch.bounds.experts = 5; });
  require_refused("bounds.tokens", [](Call& call) { call.batch.bounds.tokens = -1; });
  require_refused("bounds.top_k", [](Call& call) { call.batch.bounds.top_k = 129; });
  require_refused("batch.x.type", [](Call& call) { call.batch.x.type = ElementType::fp16; });
  require_refused("batch.x.leading_dimension", [](Call& call) { call.batch.x.leading_dimension = 31; });
  require_refused("batch.routing_weights", [](Call& call) { call.batch.routing_weights = nullptr; });
  require_refused("batch.routing_weights",
                  [](Call& call) { call.options.weight_place = RoutingWeightPlace::none; });
  require_refused("options.output_scale", [](Call& call) { call.options.output_scale = NAN; });
  require_refused("options.sm_limit", [](Call& call) { call.options.sm_limit = -1; });
}

TEST_CASE("gradients that do not fit, or lie in another operand, are refused by name", "[checks]") {
  require_refused("gradients.up.n", [](Call& call) { call.gradients.up.n = 48; });
  require_refused("gradients.down.experts", [](Call& call) { call.gradients.down.experts = 3; });
  require_refused("gradients.up.expert_stride", [](Call& call) { call.gradients.up.expert_stride = 100; });
  require_refused("gradients.up_second", [](Call& call) { call.gradients.up_second = call.gradients.up; });
  require_refused("gradients.x", [](Call& call) { call.gradients.x = {address(4), 32}; });
  require_refused("gradients.down", [](Call& call) { call.gradients.down.data = call.gradients.up.data; });
  require_refused("gradients.up_bias",
                  [](Call& call) { call.gradients.up_bias = static_cast<float*>(address(0)); });
  require_refused("gradients.routing_weights", [](Call& call) {
    call.options.weight_place = RoutingWeightPlace::none;
    call.batch.routing_weights = nullptr;
  });
  Call of_two;
  of_two.mlp.up.second = {address(9), 32 * 48, nullptr};
  of_two.mlp.up.leading_dimension = 48;
  of_two.mlp.up.first.expert_stride = 32 * 48;
  of_two.gradients.up = gradients_of(32, 48, 6);
  of_two.gradients.up_second = gradients_of(32, 48, 10);
  CHECK_NOTHROW(of_two.check());
}

TEST_CASE("rows that do not fit their layer are refused by name", "[checks]") {
  const Call call;
  ExpertMlpRows rows;
  rows.rows.experts = 4;
  rows.rows.rows_bound = 100;
  rows.rows.row_begin = static_cast<const std::int32_t*>(address(20));
  rows.rows.row_count = static_cast<const std::int32_t*>(address(21));
  rows.rows.tiles = static_cast<const RowTile*>(address(22));
  rows.rows.tile_count = static_cast<const std::int32_t*>(address(23));
  rows.rows.tile_bound = row_tile_bound(100, 4, {});
  rows.row_weights = static_cast<const float*>(address(24));
  rows.x = {address(25), 32};
  CHECK_NOTHROW(check_batch(call.mlp, rows, call.options).check());
  const auto refused = [&](const ExpertMlpRows& changed) {
    return refused_argument([&] { check_batch(call.mlp, changed, call.options).check(); });
  };
  ExpertMlpRows changed = rows;
  changed.row_weights = nullptr;
  CHECK(refused(changed) == "rows.row_weights");
  changed = rows;
  changed.rows.tiles = nullptr;
  CHECK(refused(changed) == "rows.tiles");
  changed = rows;
  changed.rows.experts = 3;
  changed.rows.tile_bound = row_tile_bound(100, 3, {});
  CHECK(refused(changed) == "rows.experts");
}
