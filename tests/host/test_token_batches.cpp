// Batches of one token, taken together where they are alike: the report is the one that they give one by one,
// whatever the file's type and axes, its duplicates, unrouted ids and warm-up.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "routing.hpp"
#include "trace_files.hpp"

using namespace dropless;

namespace {

/// A trace that hands every batch over by itself.
class OneByOne : public Trace {
 public:
  explicit OneByOne(Trace& trace) : trace_(trace) {}
  const TraceInfo& info() const override { return trace_.info(); }
  std::vector<LayerFacts> read(BatchSink& sink, int workers, Progress progress, void* context) override {
    class Forward : public BatchSink {
     public:
      explicit Forward(BatchSink& next) : next_(next) {}
      void batch(int worker, const Batch& batch) override { next_.batch(worker, batch); }

     private:
      BatchSink& next_;
    } forward(sink);
    return trace_.read(forward, workers, progress, context);
  }

 private:
  Trace& trace_;
};

/// Counts what arrives together.
class Together : public BatchSink {
 public:
  void batch(int, const Batch&) override { ++std::atomic_ref(single); }  // workers arrive at once
  std::int64_t most_token_batches() const override { return 512; }
  void token_batches(int, const TokenBatches& batches) override {
    std::atomic_ref(together) += batches.batches;
  }

  std::int64_t single = 0, together = 0;
};

struct Routing {
  std::int64_t tokens = 0;  // of a layer
  int top_k = 0, experts = 0;
  std::vector<std::int32_t> ids;  // [2 layers][tokens][top_k]
};

Routing random_routing(std::mt19937& random, int duplicates, int unrouted, std::int64_t warmup) {
  Routing routing;
  routing.top_k = 1 << random() % 4;
  routing.experts = routing.top_k + static_cast<int>(random() % 90);
  routing.tokens = 700 + static_cast<std::int64_t>(random() % 900);
  routing.ids = random_expert_ids(2 * routing.tokens, routing.top_k, routing.experts,
                                  static_cast<std::uint32_t>(random()), 1, unrouted);
  const auto row_at = [&](std::int64_t token) { return routing.ids.begin() + token * routing.top_k; };
  for (int i = 0; i < duplicates; ++i)
    *row_at(static_cast<std::int64_t>(random()) % (2 * routing.tokens)) = routing.ids[0];
  for (std::int64_t token = 1; token < warmup; ++token) std::copy(row_at(0), row_at(1), row_at(token));
  return routing;
}

void check_same(const std::string& path, TraceOptions options, const ReportOptions& asked) {
  options.batch_tokens = 1;
  const auto trace = open_trace(path, options);
  OneByOne one_by_one(*trace);
  CHECK(report_json(make_report(*trace, asked)) == report_json(make_report(one_by_one, asked)));
}

std::string shape_text(std::int64_t a, std::int64_t b, std::int64_t c) {
  return fmt::format("({}, {}, {})", a, b, c);
}

ReportOptions everything() {
  ReportOptions asked;
  asked.policies = {"dropless", "block:64",   "vllm:auto",           "torch", "sonic:nr", "flat:128",
                    "deepgemm", "tile:128x2", "capacity:1:megatron", "max",   "align:16"};
  asked.model = ModelShape{"", MlpKind::glu, 256, 512, 0, 0, 0, ElementType::bf16, ""};
  asked.time = TimeModel{find_hardware("H200"), 1, 1, 0, ""};
  asked.sms = 132;
  return asked;
}

}  // namespace

TEST_CASE("token batches: the report of one token at a time, whatever the file holds", "[trace]") {
  std::mt19937 random(31);
  TemporaryFolder folder;
  for (int round = 0; round < 12; ++round) {
    const Routing routing =
        random_routing(random, round % 3 == 0 ? 5 : 0, round % 4 == 1 ? 2 : 0, round % 5 == 2 ? 300 : 0);
    CAPTURE(round, routing.tokens, routing.top_k, routing.experts);
    const std::string path = folder.write(
        "trace.npy", npy_bytes("<i4", shape_text(2, routing.tokens, routing.top_k), raw_bytes(routing.ids)));
    TraceOptions options;
    options.axes = {Axis::layer, Axis::token, Axis::slot};
    options.experts = routing.experts;
    options.drop_warmup = round % 2 == 0;
    ReportOptions asked = everything();
    check_same(path, options, asked);
    asked.policies.push_back("flat:4");  // whose tiles a token of 4 experts fills
    check_same(path, options, asked);
    if (routing.experts >= 2) asked.ranks = 2;
    check_same(path, options, asked);
  }
}

TEST_CASE("token batches: bytes, with the layers innermost", "[trace]") {
  std::mt19937 random(32);
  TemporaryFolder folder;
  for (int round = 0; round < 6; ++round) {
    const Routing routing = random_routing(random, 0, 0, 0);
    std::vector<std::uint8_t> bytes(routing.ids.begin(), routing.ids.end());
    const std::string path = folder.write(
        "trace.npy", npy_bytes("|u1", shape_text(routing.tokens, 2, routing.top_k), raw_bytes(bytes)));
    TraceOptions options;
    options.axes = {Axis::token, Axis::layer, Axis::slot};
    options.experts = routing.experts;
    check_same(path, options, everything());
    options.batch_tokens = 1;
    Together together;
    open_trace(path, options)->read(together, 3);
    CHECK(together.single + together.together == 2 * routing.tokens);
  }
}

TEST_CASE("token batches: distinct tokens arrive together, the rest one by one", "[trace]") {
  TemporaryFolder folder;
  Routing routing{2000, 8, 64, random_expert_ids(4000, 8, 64, 5)};
  TraceOptions options;
  options.axes = {Axis::layer, Axis::token, Axis::slot};
  options.batch_tokens = 1;
  const auto counted = [&] {
    Together together;
    open_trace(folder.write("trace.npy", npy_bytes("<i4", shape_text(2, routing.tokens, routing.top_k),
                                                   raw_bytes(routing.ids))),
               options)
        ->read(together, 2);
    return together;
  };
  CHECK(counted().together == 4000);
  routing.ids[8 * 1000] = routing.ids[8 * 1000 + 1];
  const Together parted = counted();
  CHECK(parted.together + parted.single == 4000);
  CHECK(parted.together >= 3000);
  CHECK(parted.single >= 1);
  routing.ids[8 * 2500] = 64;
  options.experts = 64;
  CHECK_THROWS_WITH(counted(), Catch::Contains("element [1, 500, 0]") && Catch::Contains("expert id 64"));
}
