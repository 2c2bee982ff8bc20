// One line for each batch, layer and policy: the lines of a small trace, and that their sums are the report's
// on a real one, in the same order for any number of workers.
#include <sstream>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "report/batch_csv.hpp"

using namespace dropless;

namespace {

std::string lines_of(Trace& trace, const ReportOptions& options, std::size_t* longest = nullptr) {
  std::string text;
  const Report report = make_report(trace, options);
  write_batch_csv(trace, report, [&](std::string_view piece) {
    text += piece;
    if (longest != nullptr) *longest = std::max(*longest, piece.size());
  });
  return text;
}

}  // namespace

TEST_CASE("batch CSV: the lines of a small trace") {
  MemoryTrace trace(4, 1,
                    {{0, {3, 0, 130, 128}}, {1, {5, 0, 0, 0}}, {2, {0, 0, 0, 0}, 3}, {2, {1, 0, 0, 15}}});
  trace.set_dense(1);
  ReportOptions options;
  options.policies = {"block:128", "vllm:64", "capacity:1:megatron"};
  CHECK(lines_of(trace, options) ==
        "layer,batch,tokens,useful_rows,active_experts,policy,scheduled_rows,launched_rows,kept_rows,"
        "dropped_rows,added_rows,padding_fraction\n"
        "0,0,261,261,3,block:128,512,512,261,0,0,0.490234375\n"
        "0,0,261,261,3,vllm:64,384,576,261,0,0,0.3203125\n"
        "0,0,261,261,3,capacity:1:megatron,135,135,135,126,0,0\n"
        "2,1,16,16,2,block:128,256,256,16,0,0,0.9375\n"
        "2,1,16,16,2,vllm:64,128,320,16,0,0,0.875\n"
        "2,1,16,16,2,capacity:1:megatron,5,5,5,11,0,0\n");
}

TEST_CASE("batch CSV: a real trace's lines sum to its report, in one order for any number of workers") {
  const auto trace = open_trace(DROPLESS_DATA_DIR "/traces/olmoe_like_final.npy");
  ReportOptions options;
  options.policies = {"block:128"};
  options.workers = 1;
  std::size_t longest = 0;
  const std::string text = lines_of(*trace, options, &longest);
  options.workers = 3;
  CHECK(lines_of(*trace, options) == text);
  CHECK(longest < 70'000);

  std::istringstream lines(text);
  std::string line, field;
  std::getline(lines, line);
  std::int64_t scheduled = 0, useful = 0, count = 0;
  for (; std::getline(lines, line); ++count) {
    std::istringstream fields(line);
    std::vector<std::string> values;
    while (std::getline(fields, field, ',')) values.push_back(field);
    REQUIRE(values.size() == 12);
    CHECK(std::stoll(values[0]) == count / 32);
    CHECK(std::stoll(values[1]) == count % 32);
    useful += std::stoll(values[3]);
    scheduled += std::stoll(values[6]);
  }
  const RoutingFigures totals = make_report(*trace, options).totals;
  CHECK(count == totals.batches_with_rows);
  CHECK(useful == totals.useful_rows);
  CHECK(scheduled == totals.policies[0].scheduled_rows);
}
