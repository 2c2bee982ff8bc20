// npz, safetensors and JSON traces.
#include "catch.hpp"
#include "trace_containers.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Rows = std::vector<std::int64_t>;

namespace {

const std::string small_npy = npy_bytes("<i8", "(3, 2)", raw_bytes<std::int64_t>({0, 1, 2, 3, 3, 0}));

}  // namespace

TEST_CASE("npz: stored and deflated members, with and without zip64", "[trace][npz]") {
  const TemporaryFolder folder;
  for (const bool deflate : {false, true})
    for (const bool zip64 : {false, true}) {
      TestZip zip;
      zip.content = small_npy;
      zip.deflate = deflate;
      zip.zip64 = zip64;
      const KeptTrace kept = keep_trace(folder.write("t.npz", zip.bytes()));
      CHECK(kept.info.format == "npz");
      CHECK(kept.rows(0, 0) == Rows{2, 1, 1, 2});
    }
}

TEST_CASE("npz: a member larger than memory is meant to hold goes through a temporary file", "[trace][npz]") {
  const TemporaryFolder folder;
  std::vector<std::int32_t> ids(12 << 20);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 2654435761u >> 28);
  Rows expected(16);
  for (const std::int32_t id : ids) ++expected[static_cast<std::size_t>(id)];
  TestZip zip;
  zip.content = npy_bytes("<i4", "(6291456, 2)", raw_bytes(ids));
  CHECK(keep_trace(folder.write("t.npz", zip.bytes())).rows(0, 0) == expected);
}

TEST_CASE("safetensors: the tensor of ids is found among others", "[trace][safetensors]") {
  const TemporaryFolder folder;
  const std::string header =
      R"({"__metadata__":{"a":"b"},"topk_idx":{"dtype":"I64","shape":[2,2],"data_offsets":[8,40]},)"
      R"("weights":{"dtype":"BF16","shape":[2,2],"data_offsets":[0,8]}})";
  const KeptTrace kept = keep_trace(
      folder.write("t.safetensors",
                   safetensors_bytes(header, std::string(8, 'x') + raw_bytes<std::int64_t>({0, -1, 2, 0}))));
  CHECK(kept.rows(0, 0) == Rows{2, 0, 1});
  CHECK(kept.batches.at({0, 0}).unrouted == 1);
}

TEST_CASE("safetensors: TensorRT-LLM's counts by iteration and layer", "[trace][safetensors]") {
  const TemporaryFolder folder;
  const std::string header = R"({"10_3":{"dtype":"I32","shape":[2],"data_offsets":[0,8]},)"
                             R"("9_3":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}})";
  const KeptTrace kept = keep_trace(
      folder.write("t.safetensors", safetensors_bytes(header, raw_bytes<std::int32_t>({1, 2, 3, 4}))));
  CHECK(kept.info.counts_only);
  CHECK_FALSE(kept.info.experts_inferred);
  CHECK(kept.rows(3, 0) == Rows{3, 4});  // iteration 9 comes first
  CHECK(kept.rows(3, 1) == Rows{1, 2});
}

TEST_CASE("json: SGLang's logical_count is cumulative unless it has steps or is said to be batched",
          "[trace][json]") {
  const TemporaryFolder folder;
  const std::string layers =
      folder.write("l.json", R"({"x": {"logical_count": [9]}, "logical_count": [[1.0, 2.0], [0, 0]]})");
  const KeptTrace cumulative = keep_trace(layers);
  CHECK(cumulative.info.cumulative);
  CHECK(cumulative.rows(0, 0) == Rows{1, 2});
  CHECK_FALSE(cumulative.layers[0].dense);
  CHECK(cumulative.layers[1].dense);
  TraceOptions options;
  options.batched = true;
  CHECK_FALSE(keep_trace(layers, options).info.cumulative);
  const KeptTrace steps = keep_trace(folder.write("s.json", R"({"logical_count": [[[1, 2]], [[3, 4]]]})"));
  CHECK_FALSE(steps.info.cumulative);
  CHECK(steps.rows(0, 1) == Rows{3, 4});
}

TEST_CASE("json: counts, ids and plain arrays, and what an object says beside them", "[trace][json]") {
  const TemporaryFolder folder;
  const KeptTrace counts =
      keep_trace(folder.write("c.json", R"({"tokens_per_expert": [4, 0, 8], "top_k": 2, "num_experts": 3})"));
  CHECK(counts.rows(0, 0) == Rows{4, 0, 8});
  CHECK(counts.batches.at({0, 0}).tokens == 6);
  CHECK(keep_trace(folder.write("r.json", "{\"rows_per_expert\":\n [[1, 2], [3, 4]]}")).rows(1, 0) ==
        Rows{3, 4});
  const KeptTrace plain = keep_trace(folder.write("p.json", "[[0, 1],\n [1, 2]]\n"));
  CHECK(plain.info.top_k == 2);
  CHECK(plain.rows(0, 0) == Rows{1, 2, 1});
  const KeptTrace ids =
      keep_trace(folder.write("i.json", R"({"topk_ids": [[0, 1], [1, 2]], "num_experts": 8})"));
  CHECK(ids.rows(0, 0) == Rows{1, 2, 1, 0, 0, 0, 0, 0});
  CHECK_FALSE(ids.info.experts_inferred);
}

TEST_CASE("a known name is known in every container", "[trace][json]") {
  const TemporaryFolder folder;
  for (const std::string name : {"topk_ids", "topk_idx", "top_indices", "expert_ids", "routed_experts"}) {
    const std::string text = "{\"" + name + "\": [[0, 1], [1, 2]]}";
    for (const char* file : {"i.json", "i.jsonl"})
      CHECK(keep_trace(folder.write(file, text)).rows(0, 0) == Rows{1, 2, 1});
    const std::string header = "{\"" + name + R"(":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},)" +
                               R"("other":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}})";
    CHECK(keep_trace(
              folder.write("i.safetensors", safetensors_bytes(header, raw_bytes<std::int64_t>({0, 1, 9}))))
              .rows(0, 0) == Rows{1, 1});
  }
  for (const std::string name : {"tokens_per_expert", "rows_per_expert", "exp_counts", "logical_count"}) {
    const std::string text = "{\"" + name + "\": [4, 5]}";
    for (const char* file : {"c.json", "c.jsonl"})
      CHECK(keep_trace(folder.write(file, text)).rows(0, 0) == Rows{4, 5});
    const std::string header = "{\"" + name + R"(":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},)" +
                               R"("other":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}})";
    CHECK(keep_trace(
              folder.write("c.safetensors", safetensors_bytes(header, raw_bytes<std::int64_t>({4, 5, 9}))))
              .rows(0, 0) == Rows{4, 5});
  }
}
