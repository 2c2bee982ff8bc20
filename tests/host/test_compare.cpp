// What changed between two reports: exact differences, what only one side has, refusals, and the text.
#include <sstream>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "report/compare.hpp"
#include "report/report_json.hpp"

using namespace dropless;
using json = nlohmann::ordered_json;

namespace {

json document(MemoryTrace trace, std::vector<std::string> policies = {"block:16", "max"}) {
  ReportOptions options;
  options.policies = std::move(policies);
  return report_document(make_report(trace, options));
}

MemoryTrace before() { return {2, 1, {{0, {16, 16}}, {1, {8, 8}}}}; }
MemoryTrace after() { return {2, 1, {{0, {32, 0}}, {1, {8, 8}}, {5, {1, 1}}}}; }

}  // namespace

TEST_CASE("compare: exact differences of totals and layers") {
  const json comparison = compare_reports(document(before()), document(after()));
  const json& layer = comparison["layers"][0];
  CHECK(layer["layer"] == 0);
  CHECK(layer["max_over_mean"] == json({{"a", 1.0}, {"b", 2.0}, {"difference", 1.0}}));
  CHECK(layer["coefficient_of_variation"] == json({{"a", 0.0}, {"b", 1.0}, {"difference", 1.0}}));
  CHECK(layer["gini"] == json({{"a", 0.0}, {"b", 0.5}, {"difference", 0.5}}));
  CHECK(layer["experts_never_used"] == json({{"a", 0}, {"b", 1}, {"difference", 1}}));
  REQUIRE(layer["policies"].size() == 2);
  CHECK(layer["policies"][0]["padding_fraction"] == json({{"a", 0.0}, {"b", 0.0}, {"difference", 0.0}}));
  CHECK(layer["policies"][1]["policy"] == "max");
  CHECK(layer["policies"][1]["padding_fraction"] == json({{"a", 0.0}, {"b", 0.5}, {"difference", 0.5}}));
  CHECK(comparison["totals"]["experts_never_used"]["difference"] == 1);
  // Layers 0, 1 (8 + 8 of 32) before; 0, 1 and 5 (2 of 32) after: 16 of 64 rows and 46 of 96 are padding.
  CHECK(comparison["totals"]["policies"][0]["padding_fraction"] ==
        json({{"a", 0.25}, {"b", 46.0 / 96}, {"difference", 46.0 / 96 - 0.25}}));
}

TEST_CASE("compare: what only one side has is said") {
  MemoryTrace dense = before();
  dense.set_dense(1);
  const json comparison =
      compare_reports(document(dense, {"block:16", "deepgemm"}), document(after(), {"flat:16", "block:16"}));
  CHECK(comparison["a"]["policies_only_here"] == json({"deepgemm"}));
  CHECK(comparison["b"]["policies_only_here"] == json({"flat:16"}));
  CHECK(comparison["layers"][1] == json({{"layer", 1}, {"state_a", "dense"}, {"state_b", "moe"}}));
  CHECK(comparison["layers"][2] == json({{"layer", 5}, {"state_a", "absent"}, {"state_b", "moe"}}));
  const std::string text = comparison_text(comparison);
  CHECK_THAT(text, Catch::Contains("layer 1: dense in A\nlayer 5: absent in A\n"));
  CHECK_THAT(text, Catch::Contains("Only A has the policies deepgemm\nOnly B has the policies flat:16\n"));
}

TEST_CASE("compare: the text of a small case") {
  const std::string text = comparison_text(compare_reports(document(before()), document(after())));
  CHECK(text == R"(A  memory.npy (npy): 2 layers, 2 experts, 2 batches, 48 useful rows
B  memory.npy (npy): 3 layers, 2 experts, 3 batches, 50 useful rows
layer 5: absent in A

All layers                           A -> B  change
max / mean                     1.00 -> 1.33   +0.33
CV                             0.00 -> 0.33   +0.33
Gini                         0.000 -> 0.167  +0.167
never used                           0 -> 1      +1
padding % of
  block:16                     25.0 -> 47.9   +22.9
  max                           0.0 -> 39.0   +39.0

Imbalance by layer
layer                max / mean                     CV                   Gini             never used
0          1.00 -> 2.00   +1.00   0.00 -> 1.00   +1.00 0.000 -> 0.500  +0.500         0 -> 1      +1
1          1.00 -> 1.00   +0.00   0.00 -> 0.00   +0.00 0.000 -> 0.000  +0.000         0 -> 0      +0

Padding % by layer
layer                  block:16                    max
0            0.0 -> 0.0    +0.0    0.0 -> 50.0   +50.0
1          50.0 -> 50.0    +0.0     0.0 -> 0.0    +0.0
)");
}

TEST_CASE("compare: what was assumed of each file is said") {
  MemoryTrace guessed = before();
  guessed.info().assumptions = {"The axes were guessed.", "A layer was taken as one batch."};
  json kept = document(guessed);
  const std::string text = comparison_text(compare_reports(kept, document(after())));
  CHECK_THAT(text, Catch::StartsWith("A  memory.npy (npy): 2 layers, 2 experts, 2 batches, 48 useful rows\n"
                                     "   note: The axes were guessed.\n"
                                     "   note: A layer was taken as one batch.\n"
                                     "B  memory.npy"));
  kept["trace"].erase("assumptions");
  CHECK_THAT(comparison_text(compare_reports(kept, document(after()))), !Catch::Contains("note:"));
}

TEST_CASE("compare: no line is wider than 100 columns, padding of whole runs is not printed") {
  MemoryTrace run = after();
  run.info().cumulative = true;
  run.info().path = "a/long/path/with spaces/" + std::string(60, 'x') + " y.npy";
  const json defaults = document(after(), default_policies(true));
  const std::string cumulative = comparison_text(compare_reports(document(run), document(after())));
  CHECK_THAT(cumulative, Catch::Contains("not meaningful") && !Catch::Contains("Padding %"));
  for (const std::string& text : {cumulative, comparison_text(compare_reports(defaults, defaults))}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("compare: a document of another schema, or without a figure, is refused") {
  const json good = document(before());
  json other = good;
  other["schema_version"] = 2;
  CHECK_THROWS_WITH(compare_reports(good, other), Catch::Contains("schema_version is 2"));
  json torn = good;
  torn["layers"][0].erase("gini");
  CHECK_THROWS_WITH(compare_reports(torn, good), Catch::Contains("gini is null"));
  CHECK_THROWS_AS(compare_reports(json(3), good), Error);
}
