// Batches of several sizes from one reading: every size's report is the one that a reading of its own gives,
// whatever the file's axes, types and gaps; and readers hand over batches in a row where a sink asks for it.
#include "traces/nested_batches.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "catch.hpp"
#include "report/sweep.hpp"
#include "routing.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Sizes = std::vector<std::int64_t>;

namespace {

/// A file of two layers, and how to read it.
struct Case {
  std::string name, path;
  TraceOptions options;
};

struct Shape {
  std::int64_t tokens;  // of a layer
  int top_k, experts, unrouted, duplicates, warmup;
};

std::vector<std::int32_t> ids_of(const Shape& shape) {
  std::vector<std::int32_t> ids =
      random_expert_ids(2 * shape.tokens, shape.top_k, shape.experts, 7, 1, shape.unrouted);
  const auto row_at = [&](std::int64_t token) { return ids.begin() + token * shape.top_k; };
  for (int i = 0; i < shape.duplicates; ++i) *row_at(300 + 37 * i) = *(row_at(300 + 37 * i) + 1);
  for (std::int64_t token = 1; token < shape.warmup; ++token) std::copy(row_at(0), row_at(1), row_at(token));
  return ids;
}

std::string log_of(const Shape& shape, const std::vector<std::int32_t>& ids) {
  std::string lines;
  for (std::int64_t token = 0; token < 2 * shape.tokens; ++token)
    lines += fmt::format(
        "{{\"layer\": {}, \"topk_ids\": [[{}]]}}\n", token / shape.tokens,
        fmt::join(ids.begin() + token * shape.top_k, ids.begin() + (token + 1) * shape.top_k, ", "));
  return lines;
}

/// The same ids in files of different order and type.
std::vector<Case> cases_of(const TemporaryFolder& folder, const Shape& shape) {
  const std::vector<std::int32_t> ids = ids_of(shape);
  const std::vector<std::int16_t> narrow(ids.begin(), ids.end());
  const auto dims = [&](std::int64_t a, std::int64_t b) {
    return fmt::format("({}, {}, {})", a, b, shape.top_k);
  };
  TraceOptions by_layer, by_token;
  by_layer.axes = {Axis::layer, Axis::token, Axis::slot};
  by_token.axes = {Axis::token, Axis::layer, Axis::slot};
  by_layer.experts = by_token.experts = shape.experts;
  TraceOptions of_log;
  of_log.experts = shape.experts;
  TraceOptions by_position = by_layer;
  by_position.axes = {Axis::layer, Axis::sequence, Axis::position, Axis::slot};
  const std::string sequences = fmt::format("(2, {}, 3, {})", shape.tokens / 3, shape.top_k);
  std::vector<Case> cases{
      {"layers outermost", folder.write("a.npy", npy_bytes("<i4", dims(2, shape.tokens), raw_bytes(ids))),
       by_layer},
      {"tokens outermost", folder.write("b.npy", npy_bytes("<i2", dims(shape.tokens, 2), raw_bytes(narrow))),
       by_token},
      {"sequences", folder.write("c.npy", npy_bytes("<i2", sequences, raw_bytes(narrow))), by_position},
      {"Fortran order", folder.write("d.npy", npy_bytes("<i2", sequences, raw_bytes(narrow), true)),
       by_position},
      {"a log", folder.write("e.jsonl", log_of(shape, ids)), of_log}};
  if (shape.unrouted == 0 && shape.experts <= 256) {
    const std::vector<std::uint8_t> bytes(ids.begin(), ids.end());
    cases.push_back({"bytes",
                     folder.write("f.npy", npy_bytes("|u1", dims(2, shape.tokens), raw_bytes(bytes))),
                     by_layer});
  }
  return cases;
}

void check_sweep(const Case& file, const Sizes& sizes, const ReportOptions& asked) {
  const auto open = [&](std::int64_t size) {
    TraceOptions options = file.options;
    options.batch_tokens = size;
    return open_trace(file.path, options);
  };
  const std::vector<SweepPoint> points = make_sweep(sizes, open, asked);
  REQUIRE(points.size() == sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    CAPTURE(file.name, sizes, sizes[i], asked.ranks);
    CHECK(points[i].batch_tokens == sizes[i]);
    CHECK(report_json(points[i].report) == report_json(make_report(*open(sizes[i]), asked)));
  }
}

/// Notes who got which batch, which came before it, and whether what came together was allowed to.
class InARow : public BatchSink {
 public:
  InARow(std::int64_t row, std::int64_t most_together) : row_(row), most_together_(most_together) {}
  std::int64_t batches_in_a_row() const override { return row_; }
  std::int64_t most_token_batches() const override { return most_together_; }
  void batch(int worker, const Batch& batch) override { take(worker, batch.layer, batch.index, 1); }
  void token_batches(int worker, const TokenBatches& together) override {
    const std::int64_t last = together.index + together.batches - 1;
    within_bounds &= together.batches <= most_together_;
    within_bounds &= row_ == 1 || together.index / most_together_ == last / most_together_;
    take(worker, together.layer, together.index, together.batches);
  }

  std::int64_t batches = 0;
  bool in_order = true, within_bounds = true;

 private:
  void take(int worker, std::int64_t layer, std::int64_t first, std::int64_t count) {
    const std::lock_guard guard(mutex_);
    batches += count;
    if (row_ == 1) return;
    for (std::int64_t index = first; index < first + count; ++index) {
      const std::pair key(layer, index / row_);
      const auto before = last_.find(key);
      if (before == last_.end())
        in_order &= index % row_ == 0;
      else
        in_order &= before->second == std::pair(worker, index - 1);
      last_[key] = {worker, index};
    }
  }

  std::int64_t row_, most_together_;
  std::mutex mutex_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<int, std::int64_t>> last_;
};

}  // namespace

TEST_CASE("nested batches: a sweep's reports are those of each size alone", "[trace][sweep]") {
  for (const Shape& shape :
       {Shape{603, 8, 64, 0, 0, 0}, Shape{402, 8, 4096, 0, 3, 0}, Shape{603, 1, 40, 0, 0, 0},
        Shape{702, 4, 33, 3, 5, 0}, Shape{603, 8, 64, 0, 2, 300}}) {
    const TemporaryFolder folder;
    CAPTURE(shape.top_k, shape.experts, shape.unrouted, shape.duplicates, shape.warmup);
    for (Case file : cases_of(folder, shape)) {
      ReportOptions asked;
      check_sweep(file, {1, 16, 64, 512}, asked);
      asked.policies = {"flat:4", "capacity:1:tutel", "tile:128x2"};
      check_sweep(file, {7, 16, 21, 5}, asked);
      asked.workers = 3;
      check_sweep(file, {100000, 1}, asked);
      file.options.drop_warmup = true;
      check_sweep(file, {1, 3, 48}, asked);
      asked.ranks = 4;
      asked.placement = "balanced";
      check_sweep(file, {16, 4}, asked);
    }
  }
}

TEST_CASE("nested batches: sizes that runs of tokens do not divide", "[trace][sweep]") {
  for (const Shape& shape : {Shape{1803, 8, 64, 0, 0, 0}, Shape{2103, 1, 40, 0, 0, 0}}) {
    const TemporaryFolder folder;
    CAPTURE(shape.tokens);
    for (const Case& file : cases_of(folder, shape)) {
      ReportOptions asked;
      asked.policies = {"block:16", "capacity:1:tutel"};
      asked.workers = 2;
      for (const Sizes& sizes : {Sizes{1, 600}, Sizes{1, 513, 1026}, Sizes{1, 700}, Sizes{1, 16, 1000}})
        check_sweep(file, sizes, asked);
    }
  }
}

TEST_CASE("nested batches: files of many units", "[trace][sweep]") {
  const TemporaryFolder folder;
  const std::int64_t tokens = (std::int64_t{9} << 20) / 16 + 77;
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(2 * tokens * 8));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(8 * (i % 8) + (i / 8 * 2654435761u >> 20) % 8);
  TraceOptions options;
  options.experts = 64;
  ReportOptions asked;
  asked.policies = {"block:16"};
  asked.workers = 2;
  options.axes = {Axis::layer, Axis::token, Axis::slot};
  const Case by_layer{
      "layers outermost",
      folder.write("a.npy", npy_bytes("|u1", fmt::format("(2, {}, 8)", tokens), raw_bytes(bytes))), options};
  options.axes = {Axis::token, Axis::layer, Axis::slot};
  const Case by_token{
      "tokens outermost",
      folder.write("b.npy", npy_bytes("|u1", fmt::format("({}, 2, 8)", tokens), raw_bytes(bytes))), options};
  for (const Case& file : {by_layer, by_token}) {
    check_sweep(file, {1, 512, 2048}, asked);
    check_sweep(file, {1000, 4000, 300000}, asked);
  }
}

TEST_CASE("nested batches: a row of batches reaches one worker, in order", "[trace]") {
  const TemporaryFolder folder;
  const Shape shape{1203, 2, 64, 0, 0, 0};
  for (const Case& file : cases_of(folder, shape))
    for (const std::int64_t row : {1, 2, 6, 600, 1000})
      for (const std::int64_t size : {1, 4})
        for (const std::int64_t most_together : {0, 1, 5, 600, 1000}) {
          TraceOptions options = file.options;
          options.batch_tokens = size;
          InARow sink(row, most_together);
          open_trace(file.path, options)->read(sink, 3);
          CAPTURE(file.name, row, size, most_together);
          CHECK(sink.in_order);
          CHECK(sink.within_bounds);
          CHECK(sink.batches == 2 * ((shape.tokens + size - 1) / size));
        }
}

TEST_CASE("nested batches: parts of two batches at once, or of another than the open one, are refused") {
  class Ignore : public BatchSink {
   public:
    void batch(int, const Batch&) override {}
    std::int64_t most_token_batches() const override { return 512; }
  } sink;
  NestedBatches nested({{1, &sink}, {600, &sink}}, 1);
  CHECK(nested.most_token_batches() == 0);
  CHECK(NestedBatches({{1, &sink}, {500, &sink}}, 1).most_token_batches() == 500);
  const std::vector<std::int64_t> rows{1};
  const auto take = [&](std::int64_t index, std::int64_t batches) {
    nested.token_batches(0, {0, index, batches, rows, rows});
  };
  CHECK_THROWS_WITH(take(512, 512),
                    "a part of a batch is batches [512, 1024) of the trace; expected within "
                    "one batch of 600 of them, the open one");
  take(0, 512);
  CHECK_THROWS_AS(take(600, 512), Error);
  CHECK_NOTHROW(take(512, 88));
  CHECK_NOTHROW(take(600, 512));
}
