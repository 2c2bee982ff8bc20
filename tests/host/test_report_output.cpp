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

TEST_CASE("report output: ids without an expert are no assignments that are routed") {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}, 5}});
  CHECK_THAT(report_text(make_report(trace)),
             Catch::Contains("; 1 batch, 266 tokens, 261 of 266 assignments routed\n"));
  MemoryTrace all_routed(4, 1, {{0, {3, 0, 130, 128}}});
  CHECK_THAT(report_text(make_report(all_routed)), Catch::Contains("261 tokens, 261 assignments\n"));
}

TEST_CASE("report output: the text of a small case") {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}, {2, {0, 0, 16, 112}}});
  trace.info().assumptions = {"Each sequence was taken as one batch."};
  ReportOptions options;
  options.policies = {"block:128", "vllm:64", "capacity:1:megatron"};
  CHECK(report_text(make_report(trace, options)) == R"(memory.npy (npy)
2 layers, 4 experts, top-1; 2 batches, 389 tokens, 389 assignments (summed over layers)
note: Each sequence was taken as one batch.

Rows scheduled for each useful row (and the share that is padding): 1.07 in 16-row blocks (6.5 %),
  1.48 in 64-row blocks (32.5 %), 1.97 in 128-row blocks (49.3 %).
A batch has 194 rows and 2.5 of 4 experts active on average; its fullest expert has 2.75 times the
  mean rows (3.50 at worst); 37.5 % of (batch, expert) pairs are empty.

All layers              scheduled padding  padding % of batches   dropped
policy                       rows       %   p50   p95   p99   max       %  source
block:128                     768    49.3  49.5  50.0  50.0  50.0     0.0  MegaBlocks 0.10
vllm:64                       576    32.5  32.7  33.3  33.3  33.3     0.0  vLLM 2025-08
capacity:1:megatron           183     0.0   0.0   0.0   0.0   0.0    53.0  Megatron-Core
vllm:64 launches 960 rows

By layer       useful rows  active  empty never    max / mean              padding % at block
layer                (sum) / batch      %  used   mean  worst    CV  Gini    16    64   128   256
0                      261     3.0   25.0     1   1.99   1.99  0.98  0.49   9.4  32.0  49.0  66.0
2                      128     2.0   50.0     2   3.50   3.50  1.46  0.69   0.0  33.3  50.0  75.0

Distribution over batches of all layers
rows per expert  mean 48.6, min 0, p10 0, p25 0, p50 3, p75 112, p90 130, p99 130, max 130
rows per batch   mean 194.5, min 128, p10 128, p25 128, p50 128, p75 261, p90 261, p99 261, max 261

Cost of a batch (mean)      metadata
block:128                    unknown
vllm:64                       2.0 kB
capacity:1:megatron          unknown

Record
local_experts  all 4 (--ranks N shows contiguous expert parallelism)
widths         not given (--model, or --mlp --d-model --d-ff --dtype): no FLOPs, no bytes
dtype          not given
precision_path not given
percentiles    exact
not included   time; router, permutation and combine; communication between ranks; shared experts
               and dense layers; columns that a kernel pads; backward pass
block:128      MegaBlocks 0.10: sum of round_up(rows, 128) (stk 0.7.1 too); metadata 12 n + 16 E of
               routing and 10 nnz + 4 (R + C + 2) of topology, R = scheduled / 128, C = E d_ff /
               128, nnz = R d_ff / 128 (needs d_ff, a multiple of the block)
vllm:64        vLLM 2025-08: B = 64; sum of round_up(rows, B); launched round_up(n + E (B - 1), B),
               or round_up(min(n B, n + E (B - 1)), B) when n < E; metadata 4 P + 4 P / B + 4 + 4 (E
               + 1), P = round_up(n + E (B - 1), B)
capacity:1:megatron Megatron-Core: the kept rows (its default), capacity = ceil(F n / E); kept sum
               of min(rows, capacity)
Definitions: dropless report --explain metrics
)");
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
