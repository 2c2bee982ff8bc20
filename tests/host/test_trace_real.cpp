// Traces of real models: the bundled ones against what was computed when they were made, the public ones
// (where DROPLESS_PUBLIC_TRACES names their folder) against the plainest reading of the same bytes.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;
using nlohmann::json;
using Rows = std::vector<std::int64_t>;

namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Path of a public trace, or empty (with a message) where there is none.
std::string public_trace(const std::string& name) {
  const char* folder = std::getenv("DROPLESS_PUBLIC_TRACES");
  if (folder != nullptr) return std::string(folder) + "/" + name;
  WARN("skipped: DROPLESS_PUBLIC_TRACES is not set");
  return "";
}

std::int64_t sum(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

}  // namespace

TEST_CASE("bundled traces: the largest expert's rows over the mean, by layer", "[trace][real]") {
  const std::string folder = std::string(DROPLESS_DATA_DIR) + "/traces/";
  const json meta = json::parse(contents(folder + "meta.json"));
  TraceOptions options;
  options.batch_axes_given = true;
  int files = 0;
  for (const auto& [variant, described] : meta["variants"].items())
    for (const auto& [snapshot, figures] : described["snapshots"].items()) {
      const KeptTrace kept = keep_trace(folder + variant + "_" + snapshot + ".npy", options);
      CAPTURE(variant, snapshot);
      CHECK(kept.info.experts == described["E"]);
      CHECK(kept.info.top_k == described["k"]);
      for (std::size_t layer = 0; layer < 4; ++layer) {
        const Rows rows = kept.rows(static_cast<std::int64_t>(layer), 0);
        const double mean =
            32.0 * 512 * static_cast<double>(kept.info.top_k) / static_cast<double>(kept.info.experts);
        CHECK(static_cast<double>(*std::max_element(rows.begin(), rows.end())) / mean ==
              Approx(figures["max_over_mean"][layer].get<double>()));
      }
      ++files;
    }
  CHECK(files == 12);
}

TEST_CASE("public: vLLM logs, line by line", "[trace][real]") {
  for (const std::string name : {"vllm_qwen15_moe_layer12.jsonl", "vllm_olmoe_layer0.jsonl"}) {
    const std::string path = public_trace(name);
    if (path.empty()) return;
    std::vector<Rows> batches;
    std::vector<Rows> rows_in_order;
    std::int64_t last_token = -1, experts = 0, layer = 0;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      const json record = json::parse(line);
      if (record["type"] != "route") continue;
      layer = record["layer"];
      if (batches.empty() || record["token_idx"] <= last_token) batches.emplace_back(256);
      last_token = record["token_idx"];
      rows_in_order.push_back(record["topk_ids"].get<Rows>());
      for (const std::int64_t id : rows_in_order.back()) {
        ++batches.back()[static_cast<std::size_t>(id)];
        experts = std::max(experts, id + 1);
      }
    }
    const auto warmup = std::find_if(rows_in_order.begin(), rows_in_order.end(),
                                     [&](const Rows& row) { return row != rows_in_order[0]; }) -
                        rows_in_order.begin();
    const KeptTrace kept = keep_trace(path);
    CAPTURE(name);
    CHECK(kept.info.experts == experts);
    CHECK(kept.layers.at(0).warmup_rows == warmup);
    CHECK(kept.layers.at(0).tokens == static_cast<std::int64_t>(rows_in_order.size()));
    REQUIRE(kept.batches.size() == batches.size());
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
      batches[batch].resize(static_cast<std::size_t>(experts));
      REQUIRE(kept.rows(layer, static_cast<std::int64_t>(batch)) == batches[batch]);
    }
  }
}

TEST_CASE("public: gpt-oss decode tokens, with the layer axis third", "[trace][real]") {
  const std::string path = public_trace("gpt_oss_20b_decode_u8.npy");
  if (path.empty()) return;
  constexpr std::size_t sequences = 128, positions = 511, layers = 24, top_k = 4;
  const std::string bytes = contents(path);
  const std::size_t body = bytes.size() - sequences * positions * layers * top_k;
  TraceOptions options;
  options.axes = {Axis::sequence, Axis::position, Axis::layer, Axis::slot};
  for (const bool by_sequence : {true, false}) {
    options.batch_axes_given = true;
    options.batch_axes = {by_sequence ? Axis::sequence : Axis::position};
    std::map<std::pair<std::int64_t, std::int64_t>, Rows> expected;
    for (std::size_t s = 0, at = body; s < sequences; ++s)
      for (std::size_t p = 0; p < positions; ++p)
        for (std::size_t l = 0; l < layers; ++l)
          for (std::size_t k = 0; k < top_k; ++k, ++at) {
            Rows& rows =
                expected[{static_cast<std::int64_t>(l), static_cast<std::int64_t>(by_sequence ? s : p)}];
            rows.resize(32);
            ++rows[static_cast<unsigned char>(bytes[at])];
          }
    const KeptTrace kept = keep_trace(path, options);
    CHECK(kept.info.experts == 32);
    REQUIRE(kept.batches.size() == expected.size());
    for (const auto& [key, rows] : expected) REQUIRE(kept.batches.at(key).rows == rows);
  }
}

TEST_CASE("public: SGLang's cumulative counts and two serving steps", "[trace][real]") {
  const std::string counts = public_trace("sglang_deepseek_v3_prefill.json");
  if (counts.empty()) return;
  const json document = json::parse(contents(counts));
  const KeptTrace kept = keep_trace(counts);
  CHECK(kept.info.cumulative);
  REQUIRE(kept.layers.size() == 61);
  for (std::size_t layer = 0; layer < 61; ++layer) {
    const std::vector<double> row = document["logical_count"][layer];
    CHECK(kept.rows(static_cast<std::int64_t>(layer), 0) == Rows(row.begin(), row.end()));
    CHECK(kept.layers[layer].dense == (layer < 3));
  }
  const KeptTrace mixtral = keep_trace(public_trace("step_mixtral_b1024.npz"));
  CHECK(mixtral.info.experts == 8);
  CHECK(sum(mixtral.rows(0, 0)) == 2048);
  const KeptTrace qwen = keep_trace(public_trace("step_qwen3_b64.npz"));
  CHECK(qwen.info.experts == 128);
  CHECK(sum(qwen.rows(0, 0)) == 512);
}
