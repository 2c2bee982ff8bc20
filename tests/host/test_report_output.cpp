// The forms of a report: the text of a small case character by character, its width on wide cases, the keys
// of the JSON, and the lines of the CSV.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"

using namespace dropless;
using nlohmann::json;

namespace {

Report example_report(std::vector<std::string> policies = {}) {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}, {2, {1, 2, 3, 4}}});
  ReportOptions options;
  options.policies = std::move(policies);
  options.model = find_model_shape("olmoe_like");
  options.ranks = 2;
  options.sms = 132;
  return make_report(trace, options);
}

void check_keys(const json& object, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    CAPTURE(key);
    CHECK(object.contains(key));
  }
}

}  // namespace

TEST_CASE("report output: every documented key of the JSON is there") {
  const json document = json::parse(report_json(example_report()));
  CHECK(document["schema_version"] == 1);
  check_keys(document,
             {"trace", "model", "hardware", "totals", "layers", "batches", "definitions", "record"});
  check_keys(document["trace"], {"path", "format", "experts", "top_k", "layers", "batches", "tokens",
                                 "assignments", "unrouted", "warmup_rows", "warnings"});
  const std::vector<std::string> policy_keys{
      "policy",      "source",           "scheduled_rows", "launched_rows",  "dropped_rows",
      "added_rows",  "padding_fraction", "padding_p50",    "padding_p95",    "padding_p99",
      "padding_max", "metadata_bytes",   "useful_flops",   "scheduled_flops"};
  check_keys(document["totals"], {"useful_rows", "active_experts", "policies", "padding_by_block"});
  check_keys(document["totals"]["policies"][0], policy_keys);
  for (const json& layer : document["layers"]) {
    check_keys(layer,
               {"layer", "useful_rows", "empty_experts", "experts_never_used", "max_over_mean",
                "max_over_mean_max", "coefficient_of_variation", "gini", "policies", "rows_per_expert"});
    check_keys(layer["policies"][0], policy_keys);
  }
  check_keys(document["record"], {"rows_per_expert", "local_experts", "widths", "dtype", "precision_path",
                                  "policies", "not_included", "percentiles"});
  CHECK(document["trace"]["layers"] == 2);
  CHECK(document["layers"][1]["layer"] == 2);
  CHECK(document["model"]["flops"] == "6ndh");
  CHECK(document["hardware"]["sms"] == 132);
  for (const MetricDefinition& metric : metric_definitions())
    CHECK(document["definitions"][metric.name] == metric.definition);
}

TEST_CASE("report output: null stands for what does not apply") {
  MemoryTrace trace(4, 0, {{0, {3, 0, 130, 128}}});
  trace.info().counts_only = true;
  const json document = json::parse(report_json(make_report(trace)));
  CHECK(document["model"].is_null());
  CHECK(document["hardware"].is_null());
  CHECK(document["trace"]["top_k"].is_null());
  CHECK(document["trace"]["tokens"].is_null());
  CHECK(document["totals"]["policies"][1]["metadata_bytes"].is_null());
  CHECK(document["totals"]["policies"][0]["useful_flops"].is_null());
  CHECK(document["totals"]["ranks"].is_null());
}

TEST_CASE("report output: no line of the text is wider than 100 columns") {
  MemoryTrace trace(4, 0, {{10, {9'000'000'000, 1, 130, 128'000'000}}, {1'000'000, {5, 6, 7, 8}}});
  trace.info().path = "a/long/path/with spaces/" + std::string(60, 'x') + " y.npy";
  trace.info().cumulative = true;
  ReportOptions options;
  options.model = find_model_shape("DeepSeek-V3");
  options.ranks = 2;
  options.sms = 132;
  options.policies = default_policies(false);
  options.policies.push_back("dropless:portable:down");
  for (const Report& report : {make_report(trace, options), example_report()}) {
    std::istringstream lines(report_text(report));
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("report output: cumulative counts print no padding, the JSON has numbers and the warning") {
  MemoryTrace trace(2, 0, {{0, {1'000'000, 3'000'000}}});
  trace.info().cumulative = trace.info().counts_only = true;
  const Report report = make_report(trace);
  CHECK_THAT(report_text(report), Catch::Contains("not meaningful"));
  CHECK_THAT(report_text(report), !Catch::Contains("padding % at block"));
  const json document = json::parse(report_json(report));
  CHECK(document["totals"]["policies"][0]["padding_fraction"].is_number());
  CHECK_THAT(document["trace"]["warnings"][0].get<std::string>(),
             Catch::Contains("gathered over a whole run"));
}

TEST_CASE("report output: one CSV line for each layer and policy, all of one width") {
  std::istringstream lines(report_csv(example_report({"block:128", "max"})));
  std::string header, line;
  std::getline(lines, header);
  const auto commas = std::count(header.begin(), header.end(), ',');
  std::size_t count = 0;
  for (; std::getline(lines, line); ++count) CHECK(std::count(line.begin(), line.end(), ',') == commas);
  CHECK(count == 3 * 2);
  CHECK_THAT(header, Catch::StartsWith("layer,warmup,batches_with_rows,useful_rows"));
}
