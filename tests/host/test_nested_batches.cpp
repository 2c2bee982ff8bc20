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

/// Notes who got which batch, and which came before it.
class InARow : public BatchSink {
 public:
  explicit InARow(std::int64_t row) : row_(row) {}
  std::int64_t batches_in_a_row() const override { return row_; }
  void batch(int worker, const Batch& batch) override {
    const std::lock_guard guard(mutex_);
    ++batches;
    const std::pair key(batch.layer, batch.index / row_);
    const auto before = last_.find(key);
    if (before == last_.end())
      in_order &= batch.index % row_ == 0;
    else
      in_order &= before->second == std::pair(worker, batch.index - 1);
    last_[key] = {worker, batch.index};
  }

  std::int64_t batches = 0;
  bool in_order = true;

 private:
  std::int64_t row_;
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
      check_sweep(file, {7, 16, 21, 5, 16}, asked);
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
    for (const std::int64_t row : {1, 2, 6, 1000})
      for (const std::int64_t size : {1, 4}) {
        TraceOptions options = file.options;
        options.batch_tokens = size;
        InARow sink(row);
        open_trace(file.path, options)->read(sink, 3);
        CAPTURE(file.name, row, size);
        CHECK(sink.in_order);
        CHECK(sink.batches == 2 * ((shape.tokens + size - 1) / size));
      }
}
