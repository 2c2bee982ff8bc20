// Reports on real traces against the plain calculation: the bundled ones, and the public ones where
// DROPLESS_PUBLIC_TRACES names their folder.
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "plain_report.hpp"

using namespace dropless;

namespace {

/// The bytes of a version 1 .npy file of uint8 past its header.
std::vector<std::uint8_t> npy_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  const std::size_t header = 10 + bytes.at(8) + 256 * std::size_t{bytes.at(9)};
  return {bytes.begin() + static_cast<std::ptrdiff_t>(header), bytes.end()};
}

PlainBatch& add_token(PlainBatch& batch, const std::uint8_t* ids, std::size_t top_k) {
  for (std::size_t slot = 0; slot < top_k; ++slot) ++batch.rows[ids[slot]];
  ++batch.tokens;
  return batch;
}

void check_policies(const Report& report, const RoutingFigures& figures,
                    const std::vector<PlainBatch>& batches) {
  const auto plain = plain_policies();
  for (std::size_t i = 0; i < report.policies.size(); ++i) {
    CAPTURE(report.policies[i].name);
    PlainCost sum;
    std::vector<double> paddings;
    std::int64_t rows = 0;
    for (const PlainBatch& batch : batches) {
      if (plain_sum(batch.rows) == 0) continue;
      const PlainCost cost = plain.at(report.policies[i].name)(batch);
      sum.scheduled += cost.scheduled;
      sum.launched += cost.launched;
      sum.kept += cost.kept;
      sum.added += cost.added;
      rows += plain_sum(batch.rows);
      paddings.push_back(cost.scheduled == 0 ? 0
                                             : 1 - static_cast<double>(cost.kept + cost.added) /
                                                       static_cast<double>(cost.scheduled));
    }
    const PolicyFigures& policy = figures.policies[i];
    CHECK(policy.scheduled_rows == sum.scheduled);
    CHECK(policy.launched_rows == sum.launched);
    CHECK(policy.dropped_rows == rows - sum.kept);
    CHECK(policy.added_rows == sum.added);
    if (sum.scheduled > 0)
      CHECK(policy.padding_fraction ==
            Approx(1 - static_cast<double>(sum.kept + sum.added) / static_cast<double>(sum.scheduled))
                .margin(1e-12));
    CHECK(policy.padding_p50 == Approx(plain_percentile(paddings, 0.50)).margin(1e-12));
    CHECK(policy.padding_p95 == Approx(plain_percentile(paddings, 0.95)).margin(1e-12));
    CHECK(policy.padding_p99 == Approx(plain_percentile(paddings, 0.99)).margin(1e-12));
    CHECK(policy.padding_max == Approx(plain_percentile(paddings, 1)).margin(1e-12));
  }
}

void check_layer(const Report& report, const RoutingFigures& figures,
                 const std::vector<PlainBatch>& batches) {
  std::vector<std::int64_t> all_rows(static_cast<std::size_t>(report.trace.experts));
  std::int64_t empty = 0, tokens = 0;
  double max_over_mean = 0, worst = 0, variation = 0, gini = 0, with_rows = 0;
  for (const PlainBatch& batch : batches) {
    tokens += batch.tokens;
    const std::int64_t rows = plain_sum(batch.rows);
    if (rows == 0) continue;
    for (std::size_t e = 0; e < all_rows.size(); ++e) {
      all_rows[e] += batch.rows[e];
      empty += batch.rows[e] == 0;
    }
    const double most = static_cast<double>(*std::max_element(batch.rows.begin(), batch.rows.end()));
    const double ratio = most / (static_cast<double>(rows) / static_cast<double>(all_rows.size()));
    max_over_mean += ratio;
    worst = std::max(worst, ratio);
    variation += plain_variation(batch.rows);
    gini += plain_gini(batch.rows);
    ++with_rows;
  }
  CHECK(figures.batches == static_cast<std::int64_t>(batches.size()));
  CHECK(figures.tokens == tokens);
  CHECK(figures.useful_rows == plain_sum(all_rows));
  CHECK(figures.rows_per_expert == all_rows);
  CHECK(figures.empty_experts == empty);
  CHECK(figures.experts_never_used == std::count(all_rows.begin(), all_rows.end(), 0));
  CHECK(figures.max_over_mean == Approx(max_over_mean / with_rows).margin(1e-8));
  CHECK(figures.max_over_mean_max == Approx(worst));
  CHECK(figures.coefficient_of_variation == Approx(variation / with_rows).margin(1e-7));
  CHECK(figures.gini == Approx(gini / with_rows).margin(1e-8));
  CHECK(figures.summed_gini == Approx(plain_gini(all_rows)).margin(1e-9));
  CHECK(figures.summed_coefficient_of_variation == Approx(plain_variation(all_rows)).margin(1e-7));
  check_policies(report, figures, batches);
}

/// Reads the trace with every policy that the plain calculation knows and compares everything.
void check_trace(const std::string& path, const TraceOptions& trace_options, const PlainTrace& plain) {
  CAPTURE(path);
  ReportOptions options;
  options.workers = 2;
  for (const auto& [name, cost] : plain_policies()) options.policies.push_back(name);
  const Report report = make_report(*open_trace(path, trace_options), options);
  REQUIRE(report.layers.size() == plain.size());
  std::vector<PlainBatch> all;
  for (std::size_t layer = 0; layer < plain.size(); ++layer) {
    CAPTURE(layer);
    check_layer(report, report.layers[layer].figures, plain[layer]);
    all.insert(all.end(), plain[layer].begin(), plain[layer].end());
  }
  check_policies(report, report.totals, all);
}

/// The folder of public traces with a slash, or nothing, with a message, where it is not known.
std::string public_traces() {
  const char* folder = std::getenv("DROPLESS_PUBLIC_TRACES");
  if (folder == nullptr || *folder == '\0') {
    WARN("skipped: DROPLESS_PUBLIC_TRACES does not name the folder of public traces");
    return "";
  }
  return std::string(folder) + "/";
}

/// The tokens of a log with one token a line, cut into batches where token_idx restarts.
std::vector<PlainBatch> batches_of_log(const std::string& path, std::size_t experts,
                                       std::size_t skipped_tokens) {
  std::ifstream file(path);
  REQUIRE(file);
  std::vector<PlainBatch> batches;
  std::int64_t last_token = 0;
  std::size_t token = 0;
  for (std::string line; std::getline(file, line);) {
    const nlohmann::json record = nlohmann::json::parse(line);
    if (record["type"] != "route") continue;
    if (batches.empty() || record["token_idx"] <= last_token)
      batches.push_back({std::vector<std::int64_t>(experts), 0});
    last_token = record["token_idx"];
    if (token++ < skipped_tokens) continue;
    ++batches.back().tokens;
    for (const std::size_t id : record["topk_ids"]) ++batches.back().rows[id];
  }
  return batches;
}

}  // namespace

TEST_CASE("report traces: the bundled traces equal the plain calculation") {
  const std::string folder = std::string(DROPLESS_DATA_DIR) + "/traces/";
  for (const auto& [name, experts, top_k] : {std::tuple{"olmoe_like_final", 64, 8},
                                             {"unbalanced_step1000", 64, 8},
                                             {"switch_like_step100", 32, 1}}) {
    const auto slots = static_cast<std::size_t>(top_k);
    const std::vector<std::uint8_t> ids = npy_bytes(folder + name + ".npy");
    REQUIRE(ids.size() == 4 * 32 * 512 * slots);
    const PlainBatch none{std::vector<std::int64_t>(static_cast<std::size_t>(experts)), 0};
    PlainTrace by_sequence(4, std::vector<PlainBatch>(32, none)),
        by_position(4, std::vector<PlainBatch>(512, none));
    for (std::size_t layer = 0; layer < 4; ++layer)
      for (std::size_t sequence = 0; sequence < 32; ++sequence)
        for (std::size_t position = 0; position < 512; ++position) {
          const std::uint8_t* token = &ids[((layer * 32 + sequence) * 512 + position) * slots];
          add_token(by_sequence[layer][sequence], token, slots);
          add_token(by_position[layer][position], token, slots);
        }
    TraceOptions options;
    options.experts = experts;
    check_trace(folder + name + ".npy", options, by_sequence);
    options.batch_axes_given = true;
    options.batch_axes = {Axis::position};
    check_trace(folder + name + ".npy", options, by_position);
  }
}

TEST_CASE("report traces: a public decode trace with another order of axes") {
  const std::string folder = public_traces();
  if (folder.empty()) return;
  const std::string path = folder + "gpt_oss_20b_decode_u8.npy";
  const std::vector<std::uint8_t> ids = npy_bytes(path);
  REQUIRE(ids.size() == 128 * 511 * 24 * 4);
  PlainTrace by_step(24, std::vector<PlainBatch>(511, {std::vector<std::int64_t>(32), 0}));
  for (std::size_t sequence = 0; sequence < 128; ++sequence)
    for (std::size_t position = 0; position < 511; ++position)
      for (std::size_t layer = 0; layer < 24; ++layer)
        add_token(by_step[layer][position], &ids[((sequence * 511 + position) * 24 + layer) * 4], 4);
  TraceOptions options;
  options.axes = {Axis::sequence, Axis::position, Axis::layer, Axis::slot};
  options.batch_axes_given = true;
  options.batch_axes = {Axis::position};
  check_trace(path, options, by_step);
}

TEST_CASE("report traces: public logs, with their warm-up and without") {
  const std::string folder = public_traces();
  if (folder.empty()) return;
  for (const auto& [name, experts, warmup] :
       {std::tuple{"vllm_olmoe_layer0.jsonl", std::size_t{64}, std::size_t{2048}},
        {"vllm_qwen15_moe_layer12.jsonl", std::size_t{60}, std::size_t{8448}}}) {
    TraceOptions options;
    options.experts = static_cast<std::int64_t>(experts);
    check_trace(folder + name, options, {batches_of_log(folder + name, experts, 0)});
    ReportOptions report_options;
    for (const auto& [policy, cost] : plain_policies()) report_options.policies.push_back(policy);
    const Report report = make_report(*open_trace(folder + name, options), report_options);
    CHECK(report.trace_warmup_rows == static_cast<std::int64_t>(warmup));
    REQUIRE(report.totals_without_warmup);
    std::vector<PlainBatch> without = batches_of_log(folder + name, experts, warmup);
    check_policies(report, *report.totals_without_warmup, without);
    // Batches of warm-up alone are gone.
    std::erase_if(without, [](const PlainBatch& batch) { return batch.tokens == 0; });
    check_layer(report, *report.layers[0].without_warmup, without);
  }
}

TEST_CASE("report traces: public cumulative counts") {
  const std::string folder = public_traces();
  if (folder.empty()) return;
  const std::string path = folder + "sglang_deepseek_v3_prefill.json";
  std::ifstream file(path);
  REQUIRE(file);
  const nlohmann::json counts = nlohmann::json::parse(file)["logical_count"];
  const Report report = make_report(*open_trace(path));
  CHECK(report.trace.cumulative);
  REQUIRE(report.layers.size() == 61);
  std::int64_t useful = 0, in_blocks = 0;
  for (std::size_t layer = 0; layer < 61; ++layer) {
    std::vector<std::int64_t> rows;
    for (const double count : counts[layer]) rows.push_back(static_cast<std::int64_t>(count));
    CHECK(report.layers[layer].dense == (layer < 3));
    CHECK(report.layers[layer].figures.rows_per_expert == rows);
    if (layer < 3) continue;
    useful += plain_sum(rows);
    in_blocks += plain_rounded(rows, 128);
    CHECK(report.layers[layer].figures.gini == Approx(plain_gini(rows)).margin(1e-8));
  }
  CHECK(useful > std::int64_t{1} << 31);
  CHECK(report.totals.useful_rows == useful);
  CHECK(report.totals.padding_by_block[3].scheduled_rows == in_blocks);
}
