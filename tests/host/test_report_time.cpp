// Modelled time in the report: exact sums on hardware with round figures, the time of sums never taken, what
// JSON and text say of it, and that nothing of it appears without hardware.
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "report/advice.hpp"

using namespace dropless;
using nlohmann::json;

namespace {

/// Widths 256 (one tile of columns in both products) and hardware of 1 GB/s, one SM and `peak` GFLOP/s.
ReportOptions timed(double peak, std::vector<std::string> policies) {
  ReportOptions options;
  options.policies = std::move(policies);
  options.workers = 1;
  options.model = ModelShape{"square", MlpKind::linear2, 256, 256, 2, 1, 1, ElementType::bf16, "the test"};
  TimeModel model;
  model.hardware = {"unit", peak, peak, peak, 1, 1, ""};
  options.time = model;
  return options;
}

// One product, in us: an expert's weights take 131.072, a row 1.024, a scheduled row 131.072 / peak.
constexpr double weights = 131.072, row = 1.024, scheduled_row = 131.072;

}  // namespace

TEST_CASE("report time: a memory-bound and a compute-bound batch are summed, not their rows") {
  // Peak 32. The batch of one row: 132.096 us of bytes a product, against 65.536 us of 16 scheduled rows and
  // 524.288 us of 128. The batch of 256 rows: 1048.576 us of scheduled rows, 393.216 us of bytes.
  MemoryTrace trace(2, 1, {{0, {1, 0}}, {0, {256, 0}}});
  const Report report = make_report(trace, timed(32, {"dropless", "block:128"}));
  const TimeFigures& exact = *report.totals.policies[0].time;
  const double first = 2 * (weights + row), second = 2 * 256 * scheduled_row / 32;
  CHECK(16 * scheduled_row / 32 < weights + row);
  CHECK(exact.us == Approx(first + second));
  CHECK(exact.memory_bound_share == 0.5);
  CHECK(exact.p50 == Approx(std::sqrt(first * second)));
  const TimeFigures& blocks = *report.totals.policies[1].time;
  CHECK(blocks.us == Approx(2 * (128 + 256) * scheduled_row / 32));
  CHECK(blocks.memory_bound_share == 0);
}

TEST_CASE("report time: layers add up and workers do not matter") {
  std::mt19937 random(5);
  std::vector<MemoryBatch> batches;
  for (std::int64_t layer = 0; layer < 3; ++layer)
    for (int i = 0; i < 40; ++i) batches.push_back({layer, {static_cast<std::int64_t>(random() % 300), 7}});
  ReportOptions options = timed(50, {"block:64", "capacity:1:megatron"});
  const auto report_by = [&](int workers) {
    options.workers = workers;
    MemoryTrace trace(2, 1, batches);
    return make_report(trace, options);
  };
  const Report one = report_by(1), four = report_by(4);
  CHECK(report_json(one) == report_json(four));
  double sum = 0;
  for (const LayerFigures& layer : one.layers) sum += layer.figures.policies[0].time->us;
  CHECK(one.totals.policies[0].time->us == Approx(sum));
}

TEST_CASE("report time: JSON and text carry it as a model, only with hardware") {
  MemoryTrace trace(2, 1, {{0, {1, 0}}, {0, {256, 0}}});
  ReportOptions options = timed(32, {"dropless", "block:128", "capacity:1:megatron"});
  const Report with = make_report(trace, options);
  const json document = json::parse(report_json(with));
  const json& policy = document["totals"]["policies"][1];
  CHECK(policy["time_us"] == with.totals.policies[1].time->us);
  CHECK(policy["bound"] == "compute");
  CHECK(document["layers"][0]["policies"][1]["time_p99_us"].is_number());
  CHECK(document["hardware"]["times_are"] == "a model, not a measurement");
  CHECK(document["hardware"]["bandwidth_gbs"] == 1);
  CHECK(document["what_to_do"].size() == 3);
  for (const char* key :
       {"time_us", "time_p50_us", "time_p95_us", "time_p99_us", "bound", "memory_bound_share"})
    CHECK(document["definitions"].contains(key));
  CHECK_THAT(report_text(with), Catch::Contains("a model, not a measurement") &&
                                    Catch::Contains("\nWhat to do\n- Of the policies"));
  options.time.reset();
  const Report without = make_report(trace, options);
  CHECK_THAT(report_text(without), !Catch::Contains("What to do") && !Catch::Contains("measurement"));
  CHECK(json::parse(report_json(without))["totals"]["policies"][0]["time_us"].is_null());
}

TEST_CASE("report time: the advice ranks by time, and names no policy without widths") {
  // 3145.728 us in blocks of 128 rows, 2361.344 us in granules of 16. Capacity 1 keeps 1 row and 128 rows.
  MemoryTrace trace(2, 1, {{0, {1, 0}}, {0, {256, 0}}});
  ReportOptions options = timed(32, {"block:128", "dropless", "capacity:1:megatron"});
  const std::vector<std::string> lines = what_to_do(make_report(trace, options));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] ==
        "Of the policies that compute exactly the router's choice, dropless takes least time, "
        "block:128 33.2 % more (time_us).");
  CHECK_THAT(lines[1], Catch::StartsWith("50.0 % of dropless's batches are bound by memory"));
  CHECK_THAT(lines[2], Catch::StartsWith("capacity:1:megatron drops 49.8 % of the rows (dropped_rows) and "));
  MemoryTrace whole(2, 1, {{0, {128, 256}}});
  options.policies = {"block:128", "dropless", "block:64"};
  CHECK(what_to_do(make_report(whole, options))[0] ==
        "The policies that compute exactly the router's choice all take the same time (time_us).");
  options.policies = {"block:128", "dropless", "sonic"};
  CHECK_THAT(what_to_do(make_report(whole, options))[0],
             Catch::Contains("block:128 and 1 other take least time, sonic "));
  options.policies = {"dropless", "sonic:nr"};
  MemoryTrace decode(2, 1, {{0, {1, 60}}});
  CHECK(what_to_do(make_report(decode, options)).size() == 2);  // sonic:nr drops every row
  options.model.reset();
  for (const std::string& line : what_to_do(make_report(trace, options)))
    for (const Policy& policy : make_report(trace, options).policies)
      CHECK_THAT(line, !Catch::Contains(policy.name));
  trace.info().cumulative = true;
  CHECK(what_to_do(make_report(trace, timed(32, {"dropless"}))).size() == 1);
}

TEST_CASE("report time: parameters fitted on another GPU are warned of") {
  MemoryTrace trace(2, 1, {{0, {1, 0}}, {0, {256, 0}}});
  ReportOptions options = timed(32, {"dropless"});
  options.time->hardware.name = "A100";
  options.time->fitted_to = "56 forward products";
  options.time->fitted_on = "A100";
  CHECK(make_report(trace, options).warnings.empty());
  options.time->fitted_on = "H200";
  const Report other = make_report(trace, options);
  REQUIRE(other.warnings.size() == 1);
  CHECK_THAT(other.warnings[0],
             Catch::Contains("are the A100's, with") && Catch::Contains("measured on the H200: no A100"));
  options.model.reset();
  CHECK(make_report(trace, options).warnings.empty());
}

TEST_CASE("report time: hardware without figures is refused") {
  MemoryTrace trace(2, 1, {{0, {1, 0}}});
  CHECK_THROWS_WITH(make_report(trace, timed(0, {"dropless"})), Catch::Contains("peak is 0"));
}
