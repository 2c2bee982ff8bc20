// make_report() on small traces held in memory: exact figures, what is left out of the totals, what stands
// beside them, and that neither the number of workers nor the order of batches matters.
#include "dropless/report.hpp"

#include <random>

#include "catch.hpp"
#include "memory_trace.hpp"
#include "report/report_json.hpp"

using namespace dropless;

namespace {

ReportOptions with(std::vector<std::string> policies, int workers = 1) {
  ReportOptions options;
  options.policies = std::move(policies);
  options.workers = workers;
  return options;
}

bool any_contains(const std::vector<std::string>& sentences, const std::string& part) {
  for (const std::string& sentence : sentences)
    if (sentence.find(part) != std::string::npos) return true;
  return false;
}

}  // namespace

TEST_CASE("report: the worked example as one batch") {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}});
  const Report report = make_report(trace, with({"block:128", "vllm:64", "capacity:1:megatron"}));
  const RoutingFigures& totals = report.totals;
  CHECK(totals.useful_rows == 261);
  CHECK(totals.active_experts == 3);
  CHECK(totals.empty_experts == 1);
  CHECK(totals.experts_never_used == 1);
  CHECK(totals.policies[0].scheduled_rows == 512);
  CHECK(totals.policies[0].padding_fraction == 1 - 261.0 / 512);
  CHECK(totals.policies[0].padding_p50 == totals.policies[0].padding_max);
  CHECK(totals.policies[1].launched_rows == 576);
  CHECK(totals.policies[2].dropped_rows == 126);
  CHECK(totals.padding_by_block[0].scheduled_rows == 288);
  CHECK(totals.padding_by_block[4].scheduled_rows == 768);
  CHECK(totals.max_over_mean == Approx(130 / 65.25).margin(1e-9));
  CHECK(report.layers[0].figures.rows_per_expert == std::vector<std::int64_t>{3, 0, 130, 128});
  CHECK(report.trace_tokens == 261);
  CHECK(report.rows_per_expert.p50 == 3);
  CHECK(report.rows_per_batch.most == 261);
  CHECK(report.batches_by_padding[9].batches == 1);
  CHECK(report.exact_percentiles);
}

TEST_CASE("report: ratios are of sums, percentiles over batches with rows only") {
  MemoryTrace trace(2, 1, {{0, {16, 0}}, {0, {1, 0}}, {0, {0, 0}, 5}});
  const Report report = make_report(trace, with({"block:16"}));
  const RoutingFigures& figures = report.layers[0].figures;
  CHECK(figures.batches == 3);
  CHECK(figures.batches_with_rows == 2);
  CHECK(figures.unrouted == 5);
  CHECK(figures.empty_experts == 2);
  CHECK(figures.experts_never_used == 1);
  CHECK(figures.policies[0].padding_fraction == 1 - 17.0 / 32);
  CHECK(figures.policies[0].padding_p50 == Approx(15.0 / 32));
  CHECK(figures.policies[0].padding_max == 15.0 / 16);
  CHECK(figures.max_over_mean == 2);
  CHECK(report.trace_assignments == 22);
  CHECK(any_contains(report.warnings, "5 ids below zero"));
}

TEST_CASE("report: dense layers leave the totals, with a warning") {
  MemoryTrace trace(2, 1, {{0, {50, 0}}, {1, {3, 4}}, {3, {0, 0}}});
  trace.set_dense(0);
  const Report report = make_report(trace, with({"block:16"}));
  CHECK(report.totals.useful_rows == 7);
  CHECK(report.totals.experts_never_used == 2);
  CHECK(report.layers[0].dense);
  CHECK(report.trace_assignments == 57);
  CHECK(any_contains(report.warnings, "layer 0 looks dense"));
}

TEST_CASE("report: warm-up is counted, and corrected figures stand beside") {
  MemoryTrace trace(
      2, 2, {{0, {600, 620}, 0, 0, 300, {300, 300}}, {0, {300, 300}, 0, 0, 300, {300, 300}}, {0, {16, 8}}});
  const Report report = make_report(trace, with({"block:16", "vllm:auto"}));
  CHECK(report.totals.useful_rows == 1844);
  CHECK(report.trace_warmup_rows == 600);
  REQUIRE(report.totals_without_warmup);
  CHECK(report.totals_without_warmup->useful_rows == 644);
  // A batch of nothing but warm-up is gone.
  CHECK(report.totals_without_warmup->batches == 2);
  CHECK(report.totals_without_warmup->policies[0].scheduled_rows == 304 + 320 + 16 + 16);
  CHECK(report.layers[0].without_warmup->rows_per_expert == std::vector<std::int64_t>{316, 328});
  CHECK(any_contains(report.warnings, "600 identical rows at the start of layer 0"));
}

TEST_CASE("report: neither workers nor the order of batches change a byte") {
  std::mt19937_64 random(21);
  std::vector<MemoryBatch> batches;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (int i = 0; i < 200; ++i) {
      MemoryBatch batch{layer, std::vector<std::int64_t>(16)};
      for (std::int64_t& count : batch.rows) count = static_cast<std::int64_t>(random() % 300);
      batches.push_back(batch);
    }
  MemoryTrace trace(16, 1, batches);
  const std::string one = report_json(make_report(trace, with({}, 1)));
  CHECK(report_json(make_report(trace, with({}, 3))) == one);
  CHECK(report_json(make_report(trace, with({}, 16))) == one);
  for (std::size_t layer = 0; layer < 3; ++layer)
    std::reverse(batches.begin() + static_cast<std::ptrdiff_t>(layer) * 200,
                 batches.begin() + static_cast<std::ptrdiff_t>(layer + 1) * 200);
  MemoryTrace reversed(16, 1, batches);
  CHECK(report_json(make_report(reversed, with({}, 2))) == one);
}

TEST_CASE("report: past 100000 batches percentiles come from bins, and the report says so") {
  std::vector<MemoryBatch> batches;
  for (std::int64_t i = 0; i < 100'001; ++i) batches.push_back({0, {1 + i % 16, 0}});
  MemoryTrace trace(2, 1, batches);
  const Report one = make_report(trace, with({"block:16"}, 1)),
               two = make_report(trace, with({"block:16"}, 2));
  CHECK_FALSE(one.exact_percentiles);
  CHECK(one.totals.policies[0].padding_p50 == Approx(8.0 / 16).margin(0.5001e-4));
  CHECK(one.totals.policies[0].padding_max == 15.0 / 16);
  CHECK(report_json(one) == report_json(two));
  CHECK(report_text(one).find("bins of 1e-4") != std::string::npos);
  batches.pop_back();
  MemoryTrace exact(2, 1, batches);
  CHECK(make_report(exact, with({"block:16"}, 2)).exact_percentiles);
}

TEST_CASE("report: FLOPs, bytes, ranks and waves") {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}, {0, {100, 0, 0, 0}}});
  ReportOptions options = with({"block:128", "capacity:1:megatron-pad"});
  ModelShape model;
  model.mlp = MlpKind::glu;
  model.d_model = 512;
  model.d_ff = 256;
  options.model = model;
  options.ranks = 2;
  options.sms = 3;
  const RoutingFigures totals = make_report(trace, options).totals;
  CHECK(totals.policies[0].useful_flops == 6.0 * 361 * 512 * 256);
  CHECK(totals.policies[0].scheduled_flops == 6.0 * 640 * 512 * 256);
  CHECK(totals.policies[0].padding_activation_bytes == (640.0 - 361) * (512 + 512) * 2);
  CHECK(totals.policies[0].metadata_bytes == 12 * 361 + 16 * 4 * 2 + 136 + 10 * 2 + 4 * (1 + 8 + 2));
  CHECK(totals.weight_bytes == 4.0 * 3 * 512 * 256 * 2);
  CHECK(totals.activation_bytes == 361.0 * (512 + 512 + 256 + 512) * 2);
  // Capacities 66 and 25: kept 135 and 25.
  CHECK(totals.policies[1].useful_flops == 6.0 * 160 * 512 * 256);
  REQUIRE(totals.ranks);
  CHECK(totals.ranks->max_over_mean == Approx((258 * 2 / 261.0 + 2) / 2));
  CHECK(totals.ranks->max_over_mean_max == 2);
  REQUIRE(totals.tiles);
  // 1 + 1 + 1 row tiles (130 rows fit one tall tile) and 1, by 512 / 256 column tiles, on 3 SMs: 2 full
  // waves, and 1 wave with 1 idle.
  CHECK(totals.tiles->tiles == 8);
  CHECK(totals.tiles->waves == 3);
  CHECK(totals.tiles->idle_share_of_last_wave == Approx((0 + 1.0 / 3) / 2));
  CHECK(totals.tiles->idle_share == Approx(1.0 / 9));
  CHECK(totals.tiles->longest_expert_share == Approx((144.0 / 288 + 1) / 2));
}

TEST_CASE("report: layers of up to 2^40 rows, with sums that do not wrap; more is refused") {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  MemoryTrace trace(2, 1, {{0, {most, 0}}, {1, {most - 1, 1}}});
  ReportOptions options =
      with({"max", "capacity:65536:megablocks", "tile:1024x1024", "vllm:1048576", "align:1"});
  ModelShape model;
  model.d_model = model.d_ff = 1 << 24;
  options.model = model;
  const Report report = make_report(trace, options);
  CHECK(report.totals.useful_rows == 2 * most);
  CHECK(report.totals.policies[0].scheduled_rows == 2 * most + 2 * (most - 1));
  CHECK(report.totals.policies[1].scheduled_rows == 2 * 65536 * most);
  CHECK(report.totals.policies[2].scheduled_rows == 2 * most + (1 << 20));
  MemoryTrace over(2, 1, {{0, {most, 0}}, {0, {1, 0}}});
  CHECK_THROWS_WITH(make_report(over, with({"max"}, 1)), Catch::Contains("rows of a layer"));
  CHECK_THROWS_WITH(make_report(over, with({"max"}, 2)), Catch::Contains("rows of a layer"));
}

TEST_CASE("report: options that are refused") {
  MemoryTrace trace(4, 0, {{0, {3, 0, 130, 128}}});
  trace.info().counts_only = true;
  ReportOptions ranks = with({"block:128"});
  ranks.ranks = 5;
  CHECK_THROWS_WITH(make_report(trace, ranks), "ranks is 5; expected 1 to the number of experts, 4");
  CHECK_THROWS_AS(make_report(trace, with({"block:100"})), Error);
  CHECK_THROWS_WITH(make_report(trace, with({"capacity:1:tutel"})), Catch::Contains("--top-k"));
  CHECK_NOTHROW(make_report(trace, with({})));
}
