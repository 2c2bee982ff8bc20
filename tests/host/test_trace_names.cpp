// Records whose numbers go by other names, and names that nobody reads.
#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Catch::Matchers::Contains;
using Rows = std::vector<std::int64_t>;
using Sentences = std::vector<std::string>;

TEST_CASE("jsonl: every name of the layer and of the step", "[trace][jsonl]") {
  TraceOptions options;
  options.batch_axes_given = true;
  options.batch_axes = {Axis::step};
  for (const std::string layer : {"layer", "layer_id", "layer_idx", "layer_number"})
    for (const std::string step : {"step", "iteration"}) {
      CAPTURE(layer, step);
      const auto record = [&](const std::string& number, const std::string& counts) {
        return "{\"" + step + "\": " + number + ", \"" + layer + "\": 5, \"tokens_per_expert\": [" + counts +
               "]}\n";
      };
      const KeptTrace kept =
          keep_text("t.jsonl", record("3", "1, 2") + record("3", "10, 0") + record("4", "7, 7"), options);
      REQUIRE(kept.batches.size() == 2);
      CHECK(kept.rows(5, 0) == Rows{11, 2});
      CHECK(kept.rows(5, 1) == Rows{7, 7});
      CHECK(kept.info.assumptions.empty());
    }
}

TEST_CASE("jsonl: a record that has a number twice is refused", "[trace][jsonl][bad]") {
  const auto with = [](const std::string& numbers) {
    return keep_text("t.jsonl", "{" + numbers + ", \"tokens_per_expert\": [1, 2]}\n");
  };
  CHECK_THROWS_WITH(
      with("\"layer\": 1, \"layer_number\": 1"),
      Contains(": line 1: layer_number: the record has that number already, under this name or another"));
  CHECK_THROWS_WITH(with("\"iteration\": 1, \"layer\": 1, \"step\": 2"),
                    Contains(": line 1: step: the record has"));
  CHECK_THROWS_WITH(with("\"layer\": 1, \"layer\": 2"), Contains(": line 1: layer: the record has"));
}

TEST_CASE("keys that are not read are named once", "[trace][jsonl][json]") {
  const std::string record =
      R"({"lyr": 1, "tokens_per_expert": [1, 2], "micro batch": [3], "loss": {"a": 1}})"
      "\n";
  CHECK(keep_text("t.jsonl", record + record + "{\"meta\": 7}\n").info.assumptions ==
        Sentences{"Each record of a layer was taken as one batch.",
                  "No record names a layer: all were taken as layer 0.",
                  "Keys not read: 'lyr', 'micro batch', 'loss'.",
                  "Lines without routing, such as meta data, were skipped: 1."});
  std::string many = "{\"layer\": 0, \"exp_counts\": [1]";
  for (int key = 10; key < 27; ++key) many += ", \"k" + std::to_string(key) + "\": 0";
  CHECK_THAT(keep_text("t.jsonl", many + "}").info.assumptions.at(1), Contains("'k25' and others."));
  CHECK_THAT(keep_text("t.json", R"({"layer": 3, "num_experts": 2, "exp_counts": [1, 2], "b": {"c": 1}})")
                 .info.assumptions.at(1),
             Contains("Keys not read: 'layer', 'b'."));
}

TEST_CASE("a byte order mark in front of JSON is skipped", "[trace][jsonl][json]") {
  const std::string mark = "\xef\xbb\xbf", record = R"({"layer": 2, "exp_counts": [1, 2]})";
  CHECK(keep_text("t.jsonl", mark + record).rows(2, 0) == Rows{1, 2});
  CHECK(keep_text("t.json", mark + "[[0, 1], [1, 2]]").rows(0, 0) == Rows{1, 2, 1});
  CHECK(keep_text("t.log", mark + record + "\n" + record).info.format == "jsonl (rows per expert)");
}
