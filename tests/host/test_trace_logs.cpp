// Logs: JSON lines, CSV, and folders of per-rank files.
#include "catch.hpp"
#include "trace_containers.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Rows = std::vector<std::int64_t>;

namespace {

std::string route(std::int64_t token, std::int64_t layer, const std::string& ids) {
  return R"({"type": "route", "token_idx": )" + std::to_string(token) + R"(, "layer": )" +
         std::to_string(layer) + R"(, "topk_ids": [)" + ids + R"(], "topk_weights": [0.5, 0.5]})" + "\n";
}

const std::string meta = R"({"type": "meta", "top_k": 2, "num_experts": 4})"
                         "\n";

}  // namespace

TEST_CASE("route lines: a token_idx that restarts within a layer starts a batch", "[trace][jsonl]") {
  const TemporaryFolder folder;
  const KeptTrace kept = keep_trace(
      folder.write("t.jsonl", meta + route(0, 5, "0, 1") + route(0, 6, "2, 3") + route(1, 5, "0, 2") + "\n" +
                                  route(1, 6, "2, 1") + route(0, 5, "3, 3") + route(0, 6, "-1, 1")));
  CHECK(kept.info.experts == 4);
  CHECK_FALSE(kept.info.experts_inferred);
  CHECK(kept.info.top_k == 2);
  CHECK(kept.info.layers == Rows{5, 6});
  CHECK(kept.rows(5, 0) == Rows{2, 1, 1, 0});
  CHECK(kept.rows(5, 1) == Rows{0, 0, 0, 2});
  CHECK(kept.batches.at({5, 1}).duplicate_rows == 1);
  CHECK(kept.batches.at({6, 1}).unrouted == 1);
  CHECK(kept.layers[0].tokens == 3);
}

TEST_CASE("route lines: warm-up is found across batches and can be left out", "[trace][jsonl]") {
  const TemporaryFolder folder;
  std::string lines;
  for (int token = 0; token < 200; ++token) lines += route(token, 0, "0, 1");
  for (int token = 0; token < 60; ++token) lines += route(token, 0, "0, 1");
  lines += route(60, 0, "2, 3") + route(0, 0, "1, 2");
  const std::string path = folder.write("t.jsonl", meta + lines);
  const KeptTrace with = keep_trace(path);
  CHECK(with.layers[0].warmup_rows == 260);
  CHECK(with.batches.at({0, 0}).warmup_rows == 200);
  CHECK(with.batches.at({0, 1}).warmup_rows == 60);
  CHECK(with.batches.at({0, 1}).warmup == Rows{60, 60, 0, 0});
  CHECK(with.rows(0, 1) == Rows{60, 60, 1, 1});
  CHECK(with.batches.at({0, 2}).warmup_rows == 0);

  TraceOptions options;
  options.drop_warmup = true;
  const KeptTrace without = keep_trace(path, options);
  CHECK(without.layers[0].warmup_rows == 260);
  CHECK(without.layers[0].tokens == 2);
  CHECK(without.batches.size() == 2);
  CHECK(without.rows(0, 0) == Rows{0, 0, 1, 1});

  options.batch_tokens = 100;
  CHECK(keep_trace(path, options).rows(0, 0) == Rows{0, 1, 2, 1});
  options.drop_warmup = false;
  const KeptTrace cut = keep_trace(path, options);
  CHECK(cut.batches.at({0, 2}).warmup_rows == 60);
  CHECK(cut.batches.at({0, 2}).tokens == 62);
}

TEST_CASE("255 identical rows, and a layer of nothing else, are no warm-up", "[trace][jsonl]") {
  const TemporaryFolder folder;
  std::string lines;
  for (int token = 0; token < 255; ++token) lines += route(token, 0, "0, 1");
  for (int token = 0; token < 300; ++token) lines += route(token, 1, "0, 1");
  const KeptTrace kept = keep_trace(folder.write("t.jsonl", meta + lines + route(255, 0, "2, 3")));
  CHECK(kept.layers[0].warmup_rows == 0);
  CHECK(kept.layers[1].warmup_rows == 0);
  CHECK(kept.rows(1, 0) == Rows{300, 300, 0, 0});
}

TEST_CASE("Megatron's router trace: a record is a batch, or a step is", "[trace][jsonl]") {
  const TemporaryFolder folder;
  const std::string path = folder.write(
      "t.jsonl",
      R"({"step": 7, "stage": 0, "layer": 2, "rank": 0, "num_tokens": 2, "topk": 2, "top_indices": [[0, 1], [1, 2]]})"
      "\n"
      R"({"step": 7, "stage": 0, "layer": 2, "rank": 0, "num_tokens": 1, "topk": 2, "top_indices": [[2, 0]]})"
      "\n"
      R"({"step": 8, "stage": 0, "layer": 2, "rank": 0, "num_tokens": 0, "topk": 2, "top_indices": []})"
      "\n"
      R"({"step": 8, "stage": 0, "layer": 2, "rank": 0, "num_tokens": 1, "topk": 2, "top_indices": [[1, 0]]})"
      "\n");
  const KeptTrace records = keep_trace(path);
  REQUIRE(records.batches.size() == 4);
  CHECK(records.rows(2, 0) == Rows{1, 2, 1});
  CHECK(records.rows(2, 1) == Rows{1, 0, 1});
  CHECK(records.batches.at({2, 2}).tokens == 0);
  TraceOptions options;
  options.batch_axes_given = true;
  CHECK(keep_trace(path, options).rows(2, 0) == Rows{3, 3, 2});
  options.batch_axes = {Axis::step};
  const KeptTrace steps = keep_trace(path, options);
  REQUIRE(steps.batches.size() == 2);
  CHECK(steps.rows(2, 0) == Rows{2, 2, 2});
  CHECK(steps.rows(2, 1) == Rows{1, 1, 0});
  options.batch_axes = {Axis::sequence};
  CHECK_THROWS_AS(open_trace(path, options), Error);
}

TEST_CASE("a record's num_experts counts, wherever in the log it stands", "[trace][jsonl]") {
  const TemporaryFolder folder;
  const KeptTrace ids =
      keep_trace(folder.write("i.jsonl", R"({"layer": 0, "step": 0, "topk_ids": [[1, 2], [3, 0]]})"
                                         "\n"
                                         R"({"layer": 0, "step": 1, "num_experts": 8, "topk_ids": [[1, 2]]})"
                                         "\n"));
  CHECK(ids.info.experts == 8);
  CHECK_FALSE(ids.info.experts_inferred);
  CHECK(ids.rows(0, 0) == Rows{1, 1, 1, 1, 0, 0, 0, 0});
  CHECK(keep_trace(folder.write("t.jsonl", R"({"layer": 0, "num_experts": 8, "topk_ids": [1, 2]})"))
            .info.experts == 8);
  CHECK(keep_trace(folder.write("c.jsonl", R"({"layer": 0, "tokens_per_expert": [1, 2], "num_experts": 2})"))
            .info.experts == 2);

  // What the options say counts above what a file says of itself, and layers that are not read say nothing.
  const std::string path = folder.write("o.jsonl", R"({"layer": 0, "num_experts": 8, "topk_ids": [[1, 2]]})"
                                                   "\n"
                                                   R"({"layer": 1, "num_experts": 4, "topk_ids": [[1, 9]]})"
                                                   "\n");
  TraceOptions options;
  options.experts = 16;
  CHECK(keep_trace(path, options).info.experts == 16);
  options.experts = 0;
  options.layers = {0};
  CHECK(keep_trace(path, options).info.experts == 8);
}

TEST_CASE("one array a line: tokens, batches of tokens, or rows per expert", "[trace][jsonl]") {
  const TemporaryFolder folder;
  const KeptTrace tokens = keep_trace(folder.write("t.jsonl", "[0, 1]\n[1, 2]\n"));
  CHECK(tokens.rows(0, 0) == Rows{1, 2, 1});
  CHECK(tokens.info.assumptions.at(0) == "Each line was taken as the expert ids of one token.");
  const KeptTrace batches = keep_trace(folder.write("b.jsonl", "[[0, 1], [1, 2]]\n[[2, 1]]\n"));
  CHECK(batches.rows(0, 0) == Rows{1, 2, 1});
  CHECK(batches.rows(0, 1) == Rows{0, 1, 1});
  const KeptTrace counts = keep_trace(folder.write("c.jsonl", "[5, 0, 5]\n[1, 2, 3]\n"));
  CHECK(counts.info.counts_only);
  CHECK(counts.rows(0, 1) == Rows{1, 2, 3});
  TraceOptions options;
  options.axes = {Axis::expert};
  CHECK(keep_trace(folder.write("d.jsonl", "[0, 1]\n[1, 2]\n"), options).rows(0, 1) == Rows{1, 2});
  const KeptTrace objects = keep_trace(folder.write(
      "o.jsonl",
      "{\"layer\": 3, \"tokens_per_expert\": [1, 0]}\n{\"layer\": 3, \"tokens_per_expert\": [0, 4]}\n"));
  CHECK(objects.rows(3, 1) == Rows{0, 4});
}

TEST_CASE("csv: counts by layer and expert, and one token a row", "[trace][csv]") {
  const TemporaryFolder folder;
  const KeptTrace counts =
      keep_trace(folder.write("c.csv", "layer_id,expert_id,count\r\n1,2,7\r\n1,0,3\r\n4,1,5\r\n"));
  CHECK(counts.info.cumulative);
  CHECK(counts.info.experts_inferred);
  CHECK(counts.rows(1, 0) == Rows{3, 0, 7});
  CHECK(counts.rows(4, 0) == Rows{0, 5, 0});
  TraceOptions options;
  options.batch_tokens = 2;
  const KeptTrace tokens =
      keep_trace(folder.write("t.csv", "layer_id,expert_ids\n3,52 40 85\n3,\"1 2 3\"\n3,52 1 2\n"), options);
  CHECK(tokens.info.top_k == 3);
  CHECK(tokens.info.experts == 86);
  CHECK(tokens.batches.at({3, 0}).tokens == 2);
  CHECK(tokens.rows(3, 1)[52] == 1);
}

TEST_CASE("csv: a cell's ids between spaces, commas or semicolons, in square brackets or not",
          "[trace][csv]") {
  const TemporaryFolder folder;
  const KeptTrace kept = keep_trace(folder.write("t.csv",
                                                 "layer_id,expert_ids\n"
                                                 "0,2;4\n0,2 4\n0,\"2,4\"\n"
                                                 "0,\"[2, 4]\"\n0,[2 4]\n0, [ 2;4 ] \n0,\" [2,4] \"\n"));
  CHECK(kept.info.top_k == 2);
  CHECK(kept.rows(0, 0) == Rows{0, 0, 7, 0, 7});
}

TEST_CASE("folders: ranks' records of one step, microbatch and layer are one batch", "[trace][folder]") {
  const TemporaryFolder folder;
  const auto record = [](int step, int layer, const std::string& ids) {
    return R"({"step": )" + std::to_string(step) + R"(, "layer": )" + std::to_string(layer) +
           R"(, "top_indices": )" + ids + "}\n";
  };
  folder.write("router_trace_rank0.jsonl",
               record(1, 0, "[[0, 1]]") + record(1, 0, "[[1, 2]]") + record(2, 0, "[[2, 0]]"));
  folder.write("router_trace_rank1.jsonl",
               record(1, 0, "[[3, 1]]") + record(1, 0, "[]") + record(2, 0, "[[3, 0], [1, 0]]"));
  const KeptTrace kept = keep_trace(folder.path(""));
  REQUIRE(kept.batches.size() == 3);
  CHECK(kept.rows(0, 0) == Rows{1, 2, 0, 1});
  CHECK(kept.rows(0, 1) == Rows{0, 1, 1, 0});
  CHECK(kept.rows(0, 2) == Rows{3, 1, 1, 1});
  CHECK(kept.batches.at({0, 2}).tokens == 3);
  TraceOptions options;
  options.batch_tokens = 4;
  CHECK_THROWS_AS(open_trace(folder.path(""), options), Error);
}

TEST_CASE("folders: num_experts of one rank is that of all, and ranks may not differ", "[trace][folder]") {
  const TemporaryFolder folder;
  const std::string with = R"({"layer": 0, "num_experts": 8, "top_indices": [[0, 1]]})";
  folder.write("router_trace_rank0.jsonl", R"({"layer": 0, "top_indices": [[0, 1]]})");
  folder.write("router_trace_rank1.jsonl", with);
  folder.write("router_trace_rank2.jsonl", with);
  const KeptTrace kept = keep_trace(folder.path(""));
  CHECK(kept.info.experts == 8);
  CHECK_FALSE(kept.info.experts_inferred);
  folder.write("router_trace_rank3.jsonl", R"({"layer": 0, "num_experts": 6, "top_indices": [[0, 1]]})");
  CHECK_THROWS_WITH(
      open_trace(folder.path("")),
      folder.path("router_trace_rank3.jsonl") + ": num_experts is 6, but 8 in the ranks' files before it");
}

TEST_CASE("folders: TensorRT-LLM's statistic skips raw files; SGLang's CSVs are summed", "[trace][folder]") {
  const TemporaryFolder statistic, counts;
  const std::string header = R"({"0_1":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}})";
  statistic.write("meta_info.json", "{}");
  statistic.write("rank0.safetensors", safetensors_bytes(header, raw_bytes<std::int64_t>({1, 2})));
  statistic.write("rank1.safetensors", safetensors_bytes(header, raw_bytes<std::int64_t>({10, 20})));
  statistic.write("rank1_raw.safetensors", "not read");
  CHECK(keep_trace(statistic.path("")).rows(1, 0) == Rows{11, 22});
  counts.write("a.csv", "layer_id,expert_id,count\n0,0,1\n0,3,4\n");
  counts.write("b.csv", "layer_id,expert_id,count\n0,0,10\n");
  CHECK(keep_trace(counts.path("")).rows(0, 0) == Rows{11, 0, 0, 4});
}
