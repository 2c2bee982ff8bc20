// Sweeps: the policies that a range of capacity factors stands for, their curve, and a trace at several batch
// sizes, as text, JSON and pictures.
#include "report/sweep.hpp"

#include <algorithm>
#include <sstream>

#include "catch.hpp"
#include "memory_trace.hpp"
#include "report/html_page.hpp"

using namespace dropless;
using Names = std::vector<std::string>;

namespace {

Report report_on(MemoryTrace trace, Names policies) {
  ReportOptions options;
  options.policies = std::move(policies);
  return make_report(trace, options);
}

/// Two tokens of expert 0 and two of expert 1, one by one and all at once.
std::vector<SweepPoint> two_sizes(const Names& policies) {
  return {{1, report_on({2, 1, {{0, {1, 0}}, {0, {1, 0}}, {0, {0, 1}}, {0, {0, 1}}}}, policies)},
          {4, report_on({2, 1, {{0, {2, 2}}}}, policies)}};
}

}  // namespace

TEST_CASE("sweep: a range of capacity factors is one policy each") {
  CHECK(expanded_policies("capacity:1:2:0.25:megatron") ==
        Names{"capacity:1:megatron", "capacity:1.25:megatron", "capacity:1.5:megatron",
              "capacity:1.75:megatron", "capacity:2:megatron"});
  CHECK(expanded_policies("capacity:0.1:0.3:0.1:tutel") ==
        Names{"capacity:0.1:tutel", "capacity:0.2:tutel", "capacity:0.3:tutel"});
  CHECK(expanded_policies("capacity:1:1.9:0.5:tutel") == Names{"capacity:1:tutel", "capacity:1.5:tutel"});
  CHECK(expanded_policies("capacity:2:2:1:tutel") == Names{"capacity:2:tutel"});
  CHECK(expanded_policies("capacity:1:megatron") == Names{"capacity:1:megatron"});
  CHECK(expanded_policies("block:128") == Names{"block:128"});
  CHECK(expanded_policies("capacity:1:256:1:tutel").size() == 256);
  for (const char* refused :
       {"capacity:2:1:0.25:megatron", "capacity:0:1:0.5:megatron", "capacity:1:2:0:megatron",
        "capacity:1:2:-1:megatron", "capacity:1:x:1:megatron", "capacity:nan:2:1:megatron",
        "capacity:1:inf:1:megatron", "capacity:1:257:1:megatron", "capacity:1:2:1e-300:megatron"}) {
    CAPTURE(refused);
    CHECK_THROWS_WITH(expanded_policies(refused), Catch::Contains("capacity:START:STOP:STEP:SYSTEM"));
  }
}

TEST_CASE("sweep: the curve of the capacity factor") {
  // ceil(261 / 4) = 66 rows: 3 + 66 + 66 kept; 131 rows: all are.
  const MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}});
  const Report report = report_on(trace, {"capacity:1:2:1:megatron-pad", "block:128", "capacity:1:megatron"});
  const std::vector<CapacityCurve> curves = capacity_curves(report);
  REQUIRE(curves.size() == 1);
  CHECK(curves[0].system == "megatron-pad");
  REQUIRE(curves[0].points.size() == 2);
  CHECK(curves[0].points[0].factor == 1);
  CHECK(curves[0].points[0].padding_fraction == 129.0 / 264);
  CHECK(curves[0].points[0].dropped_fraction == 126.0 / 261);
  CHECK(curves[0].points[1].factor == 2);
  CHECK(curves[0].points[1].padding_fraction == 263.0 / 524);
  CHECK(curves[0].points[1].dropped_fraction == 0);
  CHECK(capacity_text(report) == R"(
Capacity factor (megatron-pad)
factor     padding %                                   dropped %
1               48.9  ################                      48.3  ###############
2               50.2  ################                       0.0
)");
  CHECK(capacity_text(report_on(trace, {"capacity:1:megatron"})).empty());
}

TEST_CASE("sweep: padding by policy against batch size as text") {
  CHECK(sweep_text(two_sizes({"block:16", "max", "capacity:1:megatron"})) ==
        R"(memory.npy (npy): 1 layer, 2 experts

tokens of a batch            1        4
batches                      4        1
active experts             1.0      2.0
max / mean                2.00     1.00
padding % of
  block:16                93.8     87.5
  max                     50.0      0.0
  capacity:1:megatron      0.0      0.0
)");
  CHECK_THAT(sweep_text(two_sizes({"block:16", "capacity:0.5:megatron"})),
             Catch::Contains("dropped % of\n  capacity:0.5:megatron      0.0     50.0\n") &&
                 !Catch::Contains("dropped % of\n  block"));
}

TEST_CASE("sweep: what was assumed of the file, and sizes that a layer's tokens do not fill, are said") {
  const auto cut = [](std::int64_t size, std::vector<MemoryBatch> batches) {
    MemoryTrace trace(2, 1, std::move(batches));
    trace.info().assumptions = {"The axes were guessed."};
    return SweepPoint{size, make_report(trace)};
  };
  const SweepPoint one = cut(1, {{0, {1, 0}}, {0, {1, 0}}, {0, {0, 1}}, {1, {1, 0}}, {1, {1, 0}}}),
                   two = cut(2, {{0, {2, 0}}, {0, {0, 1}}, {1, {2, 0}}}),
                   three = cut(3, {{0, {2, 1}}, {1, {2, 0}}}),
                   thousand = cut(1000, {{0, {2, 1}}, {1, {2, 0}}});
  CHECK_THAT(sweep_text({one, two, three, thousand, {4000, thousand.report}}),
             Catch::StartsWith(
                 "memory.npy (npy): 2 layers, 2 experts\n"
                 "note: The axes were guessed.\n"
                 "note: No layer has more than 3 tokens: at 1,000 and 4,000 all of a layer is one batch.\n"
                 "note: At 2 and 3 not every batch is full: one that ends a layer is shorter.\n\n"));
  const auto document = sweep_document({one, three});
  CHECK(document["trace"]["assumptions"] ==
        nlohmann::ordered_json(
            {"The axes were guessed.", "At 3 not every batch is full: one that ends a layer is shorter."}));
  CHECK_THAT(sweep_text({one}), Catch::StartsWith("memory.npy (npy): 2 layers, 2 experts\n"
                                                  "note: The axes were guessed.\n\n"));
}

TEST_CASE("sweep: a size that is named twice is one point") {
  ReportOptions options;
  options.workers = 1;  // a MemoryTrace deals batches out one by one
  const std::vector<SweepPoint> points = make_sweep(
      {4, 1, 4, 1},
      [](std::int64_t size) -> std::unique_ptr<Trace> {
        CHECK(size == 1);
        return std::make_unique<MemoryTrace>(
            MemoryTrace(2, 1, {{0, {1, 0}}, {0, {1, 0}}, {0, {0, 1}}, {0, {0, 1}}}));
      },
      options);
  REQUIRE(points.size() == 2);
  CHECK(points[0].batch_tokens == 4);
  CHECK(points[0].report.totals.batches == 1);
  CHECK(points[1].batch_tokens == 1);
  CHECK(points[1].report.totals.batches == 4);
}

TEST_CASE("sweep: modelled time of a batch where hardware is known") {
  // Widths 256, 1 GB/s and a peak that never binds: an expert's weights take 131.072 us a product, a
  // row 1.024.
  ReportOptions options;
  options.policies = {"block:16"};
  options.model = ModelShape{"square", MlpKind::linear2, 256, 256, 2, 1, 1, ElementType::bf16, "the test"};
  options.time = TimeModel{};
  options.time->hardware = {"unit", 1e6, 1e6, 1e6, 1, 1, ""};
  MemoryTrace small(2, 1, {{0, {1, 0}}, {0, {0, 1}}}), large(2, 1, {{0, {1, 1}}});
  const std::string text = sweep_text({{1, make_report(small, options)}, {2, make_report(large, options)}});
  CHECK_THAT(text, Catch::Contains(
                       "modelled microseconds of a batch under\n  block:16             264.2    528.4\n"));

  const std::string page =
      html_page(sweep_document({{1, make_report(small, options)}, {2, make_report(large, options)}}));
  CHECK_THAT(page, Catch::Contains("Time by batch size") && Catch::Contains(">100 us</text>") &&
                       Catch::Contains(">1000 us</text>") &&
                       Catch::Contains("<title>block:16, 2: 528.4 us</title>"));
  CHECK_THAT(html_page(sweep_document(two_sizes({"block:16"}))), !Catch::Contains("Time by batch size"));
}

TEST_CASE("sweep: the JSON is the last size's report and every size's totals") {
  const auto document = sweep_document(two_sizes({"block:16"}));
  CHECK(document["schema_version"] == 1);
  CHECK(document["totals"]["batches"] == 1);
  const auto& sizes = document["sweep"]["batch_tokens"];
  REQUIRE(sizes.size() == 2);
  CHECK(sizes[0]["batch_tokens"] == 1);
  CHECK(sizes[0]["totals"]["batches"] == 4);
  CHECK(sizes[0]["totals"]["policies"][0]["padding_fraction"] == 60.0 / 64);
  CHECK(sizes[1]["batch_tokens"] == 4);
  CHECK(sizes[1]["totals"] == document["totals"]);
  CHECK(document["sweep"]["capacity"].empty());
}

TEST_CASE("sweep: no line is wider than 100 columns, however many sizes") {
  std::vector<SweepPoint> points = two_sizes(default_policies(true));
  while (points.size() < 17) points.push_back(points.back());
  points.back().batch_tokens = 1'048'576;
  std::istringstream lines(sweep_text(points));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("sweep: the page draws a curve for each policy, one where they coincide") {
  const std::string page =
      html_page(sweep_document(two_sizes({"block:16", "align:16", "max", "capacity:1:2:1:tutel"})));
  CHECK_THAT(page, Catch::Contains("Padding by batch size") && Catch::Contains("of batches of 4 tokens") &&
                       Catch::Contains("</svg>block:16, align:16</li>") &&
                       Catch::Contains("<title>max, capacity:1:tutel, 1: 50.0 %</title>") &&
                       Catch::Contains("Capacity factor: tutel"));
  const std::string single = html_page(sweep_document({two_sizes({"block:16"})[0]}));
  CHECK_THAT(single, !Catch::Contains("Capacity factor"));
}
