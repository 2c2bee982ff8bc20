// What a log's records together say against it: sums that were never reset, steps that come again, batches
// that are missing.
#include <fmt/format.h>

#include <filesystem>
#include <random>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "trace_files.hpp"
#include "traces/running_sums.hpp"

using namespace dropless;
using traces::RunningSums;
using Rows = std::vector<std::int64_t>;
using Sentences = std::vector<std::string>;

namespace {

std::string record(int step, int layer, const Rows& counts) {
  std::string text;
  for (const std::int64_t count : counts) text += (text.empty() ? "" : ", ") + std::to_string(count);
  return "{\"step\": " + std::to_string(step) + ", \"layer\": " + std::to_string(layer) +
         ", \"tokens_per_expert\": [" + text + "]}\n";
}

/// Rows per expert of `assignments` ids drawn from an uneven router.
Rows routed(std::mt19937& random, int experts, int assignments) {
  std::vector<double> weights;
  for (int expert = 0; expert < experts; ++expert) weights.push_back(1.0 / (expert + 2));
  std::discrete_distribution<std::size_t> router(weights.begin(), weights.end());
  Rows rows(weights.size(), 0);
  for (int i = 0; i < assignments; ++i) ++rows[router(random)];
  return rows;
}

const std::string running_sums_warning =
    "no expert's count ever falls and every layer's total grows evenly from record to record: these look "
    "like "
    "running sums, not counts of batches, so rows are counted again and again and block padding is near 0 by "
    "construction (log the differences; --batched if each record is a batch)";

const std::string fewer_batches =
    "1 of 2 layers has fewer batches than the others (layer 4 has 1, layer 0 has 2): records may be missing, "
    "or logged twice";

}  // namespace

TEST_CASE("counts that were never reset are called running sums", "[trace][doubts]") {
  std::mt19937 random(5);
  std::string sums, batches;
  std::vector<Rows> so_far(3, Rows(8, 0));
  for (int step = 0; step < 3; ++step)
    for (int layer = 0; layer < 3; ++layer) {
      const Rows rows = routed(random, 8, 400 + 20 * step);
      for (std::size_t expert = 0; expert < 8; ++expert)
        so_far[static_cast<std::size_t>(layer)][expert] += rows[expert];
      sums += record(step, layer, so_far[static_cast<std::size_t>(layer)]);
      batches += record(step, layer, rows);
    }
  CHECK(keep_text("t.jsonl", sums).info.warnings == Sentences{running_sums_warning});
  CHECK(keep_text("t.jsonl", batches).info.warnings.empty());
  TraceOptions options;
  options.batched = true;
  CHECK(keep_text("t.jsonl", sums, options).info.warnings.empty());
}

TEST_CASE("routing of batches is never called running sums", "[trace][doubts]") {
  std::mt19937 random(11);
  const auto found = [&](int experts, int layers, const std::vector<int>& sizes) {
    RunningSums sums;
    for (const int size : sizes)
      for (int layer = 0; layer < layers; ++layer) {
        const Rows rows = routed(random, experts, size);
        sums.add(layer, rows.data(), experts);
      }
    return sums.found();
  };
  for (int run = 0; run < 3000; ++run) {
    CAPTURE(run);
    CHECK_FALSE(found(4, 1 + run % 3, std::vector<int>(static_cast<std::size_t>(3 + run % 9), 64)));
    CHECK_FALSE(found(8, 1, {97, 98, 99, 100}));      // batches of nearly one size
    CHECK_FALSE(found(8, 2, {64, 128, 256, 512}));    // a sweep of sizes
    CHECK_FALSE(found(64, 2, {100, 200, 300, 400}));  // a sweep that grows evenly
    CHECK_FALSE(found(8, 1, {4000, 40, 4, 0}));
  }
}

TEST_CASE("the routing of the models that come along is never called running sums", "[trace][doubts]") {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(DROPLESS_DATA_DIR "/traces")) {
    const std::string name = file.path().filename().string();
    if (file.path().extension() != ".npy" || name.find("gates") != std::string::npos) continue;
    ++files;
    CAPTURE(name);
    const KeptTrace kept = keep_trace(file.path().string());
    RunningSums all, first_three;
    for (const auto& [key, batch] : kept.batches) {
      const auto experts = static_cast<std::int64_t>(batch.rows.size());
      all.add(key.first, batch.rows.data(), experts);
      if (key.second < 3) first_three.add(key.first, batch.rows.data(), experts);
    }
    CHECK_FALSE(all.found());
    CHECK_FALSE(first_three.found());
  }
  CHECK(files >= 12);
}

TEST_CASE("running sums: few counts, a total that stays and a dense layer", "[trace][doubts]") {
  const auto found = [](const std::vector<Rows>& records) {
    RunningSums sums;
    for (const Rows& rows : records) sums.add(0, rows.data(), static_cast<std::int64_t>(rows.size()));
    const Rows none(4, 0);
    for (int i = 0; i < 3; ++i) sums.add(1, none.data(), 4);
    return sums.found();
  };
  std::vector<Rows> growing;
  for (std::int64_t i = 1; i <= 5; ++i) growing.push_back({10 * i, 3 * i, 7 * i, i});
  CHECK(found(growing));  // 16 counts that grew
  growing[4][3] = 4;
  CHECK_FALSE(found(growing));
  growing[4][3] = 5;
  growing.push_back(growing.back());
  CHECK_FALSE(found(growing));
  growing.back() = {60, 18, 41, 6};  // one below six times 7
  CHECK(found(growing));
  growing.back() = {60, 18, 34, 6};
  CHECK_FALSE(found(growing));
}

TEST_CASE("a step that comes again, and a layer with fewer batches, are said", "[trace][doubts]") {
  const std::string twice = record(0, 0, {5, 1}) + record(0, 0, {1, 5}) + record(1, 0, {2, 2});
  CHECK(keep_text("t.jsonl", twice).info.warnings ==
        Sentences{"1 batch is of a step that is not above the earlier ones of the layer (logged twice, or in "
                  "parts?): "
                  "each was taken as a batch of its own (--batch step sums what follows one another)"});
  TraceOptions by_step;
  by_step.batch_axes_given = true;
  by_step.batch_axes = {Axis::step};
  CHECK(keep_text("t.jsonl", twice, by_step).info.warnings.empty());
  CHECK(keep_text("t.jsonl", twice + twice, by_step).info.warnings ==
        Sentences{
            "2 batches are of a step that is not above the earlier ones of the layer (logged twice, or in "
            "parts?): each was taken as a batch of its own"});
  CHECK(
      keep_text("t.jsonl", "{\"layer\": 0, \"topk_ids\": [[0, 1]]}\n{\"layer\": 0, \"topk_ids\": [[0, 1]]}\n")
          .info.warnings.empty());

  CHECK(keep_text("t.jsonl", record(0, 0, {5, 1}) + record(0, 4, {1, 5}) + record(1, 0, {2, 2}))
            .info.warnings == Sentences{fewer_batches});
  CHECK(keep_text("t.jsonl", record(0, 0, {5, 1}) + record(0, 4, {1, 5})).info.warnings.empty());
}

TEST_CASE("ids that most tokens name twice may be counts", "[trace][doubts]") {
  const TemporaryFolder folder;
  const auto warning = [&](const Rows& ids) {
    const std::string shape = fmt::format("({}, 2)", ids.size() / 2);
    TraceOptions options;
    options.experts = 8;
    const auto trace = open_trace(folder.write("t.npy", npy_bytes("<i8", shape, raw_bytes(ids))), options);
    return make_report(*trace).warnings.at(0);
  };
  CHECK(warning({3, 3, 4, 4, 1, 2}) ==
        "2 tokens name an expert more than once: are the numbers rows per expert, not ids? (--axes with "
        "expert says so)");
  CHECK(warning({3, 3, 4, 5, 1, 2}) == "1 token names an expert more than once");
}

TEST_CASE("folders: what was summed, and which batches some rank lacks", "[trace][folder][doubts]") {
  const auto ranks = [](const std::string& first, const std::string& second) {
    const TemporaryFolder folder;
    folder.write("router_trace_rank0.jsonl", first);
    folder.write("router_trace_rank1.jsonl", second);
    return keep_trace(folder.path("")).info;
  };
  const std::string both = record(0, 0, {5, 1}) + record(1, 0, {2, 2});
  const std::string own_batches = "Each record of a layer was taken as one batch.";
  const std::string summed = "The same step and layer of 2 ranks' files were summed into one batch.";
  CHECK(ranks(both, both).assumptions == Sentences{own_batches, summed});
  CHECK(ranks(both, both).warnings.empty());
  CHECK(ranks(both, record(1, 0, {2, 2})).assumptions == Sentences{own_batches, summed});
  CHECK(ranks(both, record(1, 0, {2, 2})).warnings ==
        Sentences{"1 of 2 batches lack some rank's share: not every rank's file has a record of that step "
                  "and layer"});
  // Stages of a pipeline have layers of their own.
  const TraceInfo stages = ranks(record(0, 0, {5, 1}), record(0, 1, {5, 1}));
  CHECK(stages.assumptions ==
        Sentences{own_batches, "No two of the 2 ranks' files have a step and layer in common."});
  CHECK(stages.warnings.empty());
}
