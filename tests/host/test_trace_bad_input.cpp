// Files that are damaged or no traces: one line with path, place and reason each, and no crash.
#include <sys/stat.h>

#include "catch.hpp"
#include "trace_containers.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Catch::Matchers::Contains;

namespace {

const TemporaryFolder& folder() {
  static const TemporaryFolder kept;
  return kept;
}

/// The message that reading the file ends with; empty where it is read.
std::string refusal(const std::string& name, const std::string& bytes, const TraceOptions& options = {}) {
  const std::string path = folder().write(name, bytes);
  try {
    keep_trace(path, options);
  } catch (const FileError& error) {
    const std::string message = error.what();
    CHECK(message.find('\n') == std::string::npos);
    CHECK(message.compare(0, path.size(), path) == 0);
    for (const char c : message) CHECK((c >= ' ' && c <= '~'));
    return message.substr(path.size());
  }
  return "";
}

std::string bytes_of(std::vector<double> numbers) { return raw_bytes(numbers); }

}  // namespace

TEST_CASE("npy: truncated headers and bodies, and shapes past 2^63", "[trace][bad]") {
  const std::string good = npy_bytes("<f8", "(2, 2)", bytes_of({0, 1, 2, 3}));
  for (std::size_t length = 6; length + 1 < good.size(); ++length)
    CHECK_THAT(refusal("t.npy", good.substr(0, length)), Contains(": npy "));
  CHECK_THAT(refusal("t.npy", good.substr(0, good.size() - 1)),
             Contains(": npy body: the shape (2, 2) needs 32 bytes, but 31 follow the header"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(9223372036854775807, 2)", "")),
             Contains("more than 2^63 bytes"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(92233720368547758070, 2)", "")), Contains("passes 2^63"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(-1, 2)", "")), Contains("not a tuple of integers"));
  CHECK_THAT(refusal("t.npy", npy_bytes("|O", "(2, 2)", "")), Contains("numbers of type"));
  CHECK_THAT(refusal("t.npy", "\x93NUMPY\x09" + good.substr(7)), Contains("version 9"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<i8", "(2, 0)", "")), Contains("the slot axis is empty"));
}

TEST_CASE("npy: NaN, fractions, negative counts and absurd ids, with the element", "[trace][bad]") {
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(2, 2)", bytes_of({0, 1, 2, std::nan("")}))),
             Contains(": element [1, 1]: nan is no expert id"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(3,)", bytes_of({0, 1.5, 2}))),
             Contains(": element [1]: 1.5 is no whole count"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(3,)", bytes_of({0, 1, -2}))),
             Contains(": element [2]: the count -2 is negative"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<i8", "(1, 1)", raw_bytes<std::int64_t>({1ll << 40}))),
             Contains("experts; 1 to 65536"));
  CHECK_THAT(refusal("t.npy", npy_bytes("<i8", "(2,)", raw_bytes<std::int64_t>({1ll << 62, 1ll << 62}))),
             Contains("2^53"));
  TraceOptions options;
  options.experts = 2;
  CHECK_THAT(refusal("t.npy", npy_bytes("<f8", "(2, 2)", bytes_of({0, 1, 2, 0})), options),
             Contains(": element [1, 0]: expert id 2 with 2 experts (padding is written as -1)"));
  CHECK(refusal("t.npy", npy_bytes("<i4", "(1, 2)", raw_bytes<std::int32_t>({0, 300})), options) ==
        ": element [0, 1]: expert id 300 with 2 experts");
  CHECK(refusal("t.jsonl", "{\"layer\": 0, \"topk_ids\": [0, 2]}", options) ==
        ": line 1: expert id 2 with 2 experts (padding is written as -1)");
}

TEST_CASE("npy: an axis too long to be the layers'", "[trace][bad]") {
  const auto of_layers = [](std::int64_t layers) {
    return npy_bytes("|u1", "(2, " + std::to_string(layers) + ", 1)",
                     std::string(static_cast<std::size_t>(2 * layers), '\1'));
  };
  TraceOptions options;
  options.axes = {Axis::token, Axis::layer, Axis::slot};
  CHECK(refusal("t.npy", of_layers(4096), options) == "");
  CHECK(refusal("t.npy", of_layers(4097), options) ==
        ": 4097 layers; at most 4096 are believed (which axis is the layers'? token,layer,slot was read)");
}

TEST_CASE("npz: damaged archives and zip bombs", "[trace][bad]") {
  TestZip zip;
  zip.content = npy_bytes("|u1", "(8, 2)", std::string(16, '\1'));
  const std::string good = zip.bytes();
  for (std::size_t length = 4; length < good.size(); length += 7)
    CHECK(refusal("t.npz", good.substr(0, length)) != "");
  zip.crc_error = 1;
  for (const bool deflate : {false, true}) {
    zip.deflate = deflate;
    CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("member 'data.npy': its checksum is wrong"));
  }
  zip.crc_error = 0;
  zip.declared_bytes = static_cast<std::int64_t>(zip.content.size()) - 1;
  CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("npy body"));
  zip.declared_bytes = static_cast<std::int64_t>(zip.content.size()) + 1;
  CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("declares 1 bytes more than its array has"));
  zip.declared_bytes = 1ll << 40;
  zip.zip64 = true;
  CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("zip bomb"));
  // The member expands far past what it declares and its own header promises.
  TestZip bomb;
  bomb.content = npy_bytes("|u1", "(8, 2)", std::string(16 << 20, '\0'));
  bomb.declared_bytes = static_cast<std::int64_t>(bomb.content.size()) - (16 << 20) + 16;
  CHECK_THAT(refusal("t.npz", bomb.bytes()), Contains("expands past its declared size"));
  zip = {};
  zip.encrypted = true;
  CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("encrypted"));
  zip = {};
  zip.name = "archive/data.pkl";
  CHECK_THAT(refusal("t.npz", zip.bytes()), Contains("torch.load"));
}

TEST_CASE("safetensors: damaged headers and tensors outside the file", "[trace][bad]") {
  const auto with = [](const std::string& header) {
    return refusal("t.safetensors", safetensors_bytes(header, std::string(16, '\0')));
  };
  CHECK_THAT(with("{"), Contains("safetensors header: not valid JSON"));
  CHECK_THAT(with("[1]"), Contains("not a JSON object"));
  CHECK_THAT(with(R"({"a": 1e999})"), Contains("a number that no type holds"));
  CHECK_THAT(with("{}"), Contains("holds no arrays"));
  CHECK_THAT(with(R"({"a":{"dtype":"I64","shape":[2],"data_offsets":[0,17]}})"),
             Contains("no range within the 16 bytes"));
  CHECK_THAT(with(R"({"a":{"dtype":"I64","shape":[3],"data_offsets":[0,16]}})"), Contains("needs 24 bytes"));
  CHECK_THAT(with(R"({"a":{"dtype":"I64","shape":[-3],"data_offsets":[0,16]}})"), Contains("whole numbers"));
  CHECK_THAT(with(R"({"a":{"dtype":"I64","shape":[4611686018427387904,4],"data_offsets":[0,16]}})"),
             Contains("2^63"));
  CHECK_THAT(with(R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"),
             Contains("integers are read"));
  CHECK_THAT(with(R"({"a":{"shape":[4]}})"), Contains("dtype is missing"));
  CHECK_THAT(with("{\"a\":" + std::string(100000, '[')), Contains("nested too deeply"));
  CHECK_THAT(refusal("t.safetensors", little_endian(1ull << 62, 8) + "{}"), Contains("safetensors header"));
}

TEST_CASE("json: ragged rows, missing keys, deep nesting and what is no number", "[trace][bad]") {
  CHECK_THAT(refusal("t.json", "[[1, 2], [3]]"), Contains(": [1]: ragged: 1 elements after arrays of 2"));
  CHECK_THAT(refusal("t.json", "[[1, 2], 3]"), Contains("numbers beside arrays"));
  CHECK(refusal("t.json", "{\"counts\": [1]}") ==
        ": neither an array of numbers nor an object with ids under topk_ids, topk_idx, top_indices, "
        "expert_ids, routed_experts, or counts under tokens_per_expert, rows_per_expert, exp_counts, "
        "logical_count");
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1, null]}"),
             Contains("logical_count[1]: null where a number"));
  CHECK(refusal("t.json", "{\"num_experts\": \"64\", \"topk_ids\": [[1, 2]]}") ==
        ": num_experts: a string where a number is expected");
  CHECK(refusal("t.json", "{\"topk_ids\": [[1, 2]], \"topk\": null}") ==
        ": topk: null where a number is expected");
  CHECK(refusal("t.json", "{\"num_experts\": 4, \"exp_counts\": [1, 2, 3]}") ==
        ": exp_counts: rows of 3 counts, but the file says that num_experts is 4");
  CHECK(refusal("t.json", "{\"num_experts\": 4, \"topk_ids\": [[1, 9]]}") ==
        ": topk_ids: element [0, 1]: expert id 9 with 4 experts");
  CHECK(refusal("t.json", "{\"top_k\": 3, \"topk_ids\": [[1, 2]]}") ==
        ": topk_ids: rows of 2 expert ids, but the file says that top_k is 3");
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1, NaN]}"), Contains("not valid JSON"));
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1, 0.5]}"),
             Contains("logical_count[1]: 0.5 is no whole number"));
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1, -5]}"),
             Contains("logical_count: element [1]: the count -5 is negative"));
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1e300]}"), Contains("no whole number"));
  CHECK_THAT(refusal("t.json", "{\"logical_count\": [1e999]}"), Contains("not valid JSON"));
  CHECK_THAT(refusal("t.json", std::string(200000, '[')), Contains("nested deeper than 8 arrays"));
  std::string objects;
  for (int i = 0; i < 1000; ++i) objects += "{\"a\":";
  CHECK_THAT(refusal("t.json", objects), Contains("nested deeper than 256 levels"));
  CHECK_THAT(refusal("t.json", "[1, 2"), Contains("not valid JSON"));
  CHECK_THAT(refusal("t.json", "{\"a\xff\": 1}"), Contains("not valid JSON"));
}

TEST_CASE("jsonl: each fault with its line", "[trace][bad]") {
  const auto after_a_good_line = [](const std::string& line) {
    return refusal("t.jsonl", "{\"layer\": 0, \"topk_ids\": [0, 1]}\n" + line + "\n");
  };
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"topk_ids\": [0, 1, 2]}"),
             Contains(": line 2: 3 expert ids in a row, after rows of 2"));
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"topk_ids\": [0, 1.5]}"),
             Contains(": line 2: topk_ids[1]: 1.5 is no whole number"));
  CHECK_THAT(after_a_good_line("{\"layer\": -1, \"topk_ids\": [0, 1]}"),
             Contains("the layer -1 is negative"));
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"topk_ids\": [0, 1"), Contains(": line 2: "));
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"topk_ids\": [0, NaN]}"), Contains(": line 2: "));
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"topk_ids\": [0, 99999]}"), Contains("expert id 99999"));
  CHECK_THAT(after_a_good_line("{\"layer\": 0, \"tokens_per_expert\": [1]}"), Contains("another kind"));
  CHECK_THAT(after_a_good_line("{\"a\": \"\xff\xfe\"}"), Contains(": line 2: "));
  CHECK_THAT(after_a_good_line("\"text\""), Contains(": line 2: "));
  CHECK_THAT(after_a_good_line("{\"topk_ids\": " + std::string(100000, '[')), Contains(": line 2: "));
  CHECK_THAT(refusal("t.jsonl", "{\"top_indices\": [[0, 1], [2]]}\n"), Contains("ragged rows"));
  CHECK_THAT(after_a_good_line("{\"topk_ids\": [1, 0]}"), Contains("line 2: names no layer"));
  CHECK_THAT(after_a_good_line("{\"type\": \"route\", \"layer\": 0}"), Contains("without topk_ids"));
  CHECK_THAT(refusal("t.jsonl", "{\"num_tokens\": 3, \"top_indices\": [[0, 1], [2, 1]]}\n"),
             Contains("num_tokens is 3, but 2 follow"));
  CHECK_THAT(refusal("t.jsonl", "{\"topk\": 4, \"top_indices\": [[0, 1], [2, 1]]}\n"),
             Contains("topk is 4, but 2 follow"));
  CHECK_THAT(refusal("t.jsonl", "{\"layer\": 0}\n"),
             Contains("holds no routing records (ids under topk_ids, topk_idx, "));
  CHECK_THAT(refusal("t.jsonl", "{\"tokens_per_expert\": [1, -1]}\n"), Contains("negative"));
}

TEST_CASE("jsonl: a value of the wrong type, with its key or place", "[trace][bad]") {
  const auto of = [](const std::string& line) { return refusal("t.jsonl", "\n" + line + "\n"); };
  CHECK(of(R"({"layer": "model.layers.3", "topk_ids": [0, 1]})") ==
        ": line 2: layer: a string where a number is expected");
  for (const std::string key : {"layer_id", "step", "token_idx", "num_tokens", "topk", "num_experts"})
    CHECK(of("{\"" + key + "\": null, \"topk_ids\": [0, 1]}") ==
          ": line 2: " + key + ": null where a number is expected");
  CHECK(of(R"({"step": 2.5, "topk_ids": [0, 1]})") == ": line 2: step: 2.5 is no whole number");
  CHECK(of(R"({"step": 1e999, "topk_ids": [0, 1]})") == ": line 2: step: a number that cannot be read");
  CHECK(of(R"({"type": 7, "topk_ids": [0, 1]})") == ": line 2: type: a number where a string is expected");
  CHECK(of(R"({"topk_ids": "0, 1"})") == ": line 2: topk_ids: a string where an array is expected");
  CHECK(of(R"({"topk_ids": [0, true]})") == ": line 2: topk_ids[1]: a boolean where a number is expected");
  CHECK(of(R"({"top_indices": [[0, 1], [2, {}]]})") ==
        ": line 2: top_indices[1][1]: an object where a number is expected");
  CHECK(of(R"({"tokens_per_expert": [[[1, 2]]]})") ==
        ": line 2: tokens_per_expert[0][0]: an array where a number is expected");
  CHECK(of(R"([3, "a"])") == ": line 2: [1]: a string where a number is expected");
  CHECK(of("[[3, 4], [5, null]]") == ": line 2: [1][1]: null where a number is expected");
  CHECK(of("\"text\"") == ": line 2: a string where an object or an array is expected");
}

TEST_CASE("jsonl: a num_experts that the records contradict", "[trace][bad]") {
  const auto stated = [](const std::string& experts, const std::string& rest) {
    return "{\"num_experts\": " + experts + ", " + rest + "}\n";
  };
  const std::string ids = "\"topk_ids\": [[0, 1], [2, 9]]";
  CHECK(refusal("t.jsonl", stated("4", ids)) == ": line 1: expert id 9 with 4 experts");
  CHECK(refusal("t.jsonl", "{" + ids + "}\n" + stated("4", "\"topk_ids\": [[0, 1]]")) ==
        ": line 2: num_experts is 4, but the records name 10 experts");
  CHECK(refusal("t.jsonl", stated("16", ids) + stated("32", ids)) ==
        ": line 2: num_experts is 32, but 16 in a line before");
  CHECK(refusal("t.jsonl", stated("16", "\"type\": \"meta\"") + stated("32", ids)) ==
        ": line 2: num_experts is 32, but 16 in a line before");
  CHECK(refusal("t.jsonl", stated("4", "\"type\": \"meta\"") + "{" + ids + "}\n") ==
        ": line 2: expert id 9 with 4 experts");
  CHECK(refusal("t.jsonl", stated("4", "\"tokens_per_expert\": [1, 2, 3, 4, 5, 6]")) ==
        ": line 1: 6 counts in a row, but 4 experts were stated");
  CHECK(refusal("t.jsonl", stated("4", "\"tokens_per_expert\": [[1, 2, 3]]")) ==
        ": line 1: 3 counts in a row, but 4 experts were stated");
  CHECK(refusal("t.jsonl",
                "{\"tokens_per_expert\": [1, 2, 3]}\n" + stated("2", "\"tokens_per_expert\": [1, 2, 3]")) ==
        ": line 2: num_experts is 2, but the records name 3 experts");
  CHECK(refusal("t.jsonl", stated("0", ids)) == ": line 1: num_experts is 0; 1 to 65536 are believed");
  CHECK(refusal("t.jsonl", stated("70000", ids)) ==
        ": line 1: num_experts is 70000; 1 to 65536 are believed");
}

TEST_CASE("csv: each fault with its line", "[trace][bad]") {
  CHECK_THAT(refusal("t.csv", "layer,expert\n1,2\n"), Contains(": line 1: the header is neither"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,2\n"),
             Contains(": line 2: 2 fields under a header of 3"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,2,x\xff\n"),
             Contains(": line 2: 'x?' is no whole count"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,2,1.5\n"), Contains("is no whole count"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,2,nan\n"), Contains("is no whole count"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,2,-3\n"), Contains("the count -3 is negative"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_id,count\n1,-2,3\n"), Contains("expert id -2"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_ids\n1,1 2\n1,1\n"),
             Contains(": line 3: 1 expert ids in a row"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_ids\n1,\n"), Contains("0 expert ids in a row"));
  CHECK_THAT(refusal("t.csv", "layer_id,expert_ids\n1,[]\n"), Contains("0 expert ids in a row"));
  CHECK(refusal("t.csv", "layer_id,expert_ids\n1,[2, 4]\n") ==
        ": line 2: 3 fields under a header of 2 (a field with commas stands in double quotes)");
  for (const auto& [cell, found] :
       {std::pair{"[2 4", "[2"}, {"2 4]", "4]"}, {"2|4", "2|4"}, {"[[2 4]]", "[2"}})
    CHECK(
        refusal("t.csv", "layer_id,expert_ids\n1," + std::string(cell) + "\n") ==
        ": line 2: '" + std::string(found) +
            "' is no expert id (a cell has its ids between spaces, commas or semicolons, in square brackets "
            "or not)");
}

TEST_CASE("files that are no traces at all", "[trace][bad]") {
  CHECK_THAT(refusal("empty.npy", ""), Contains("an empty file"));
  CHECK_THAT(refusal("t.bin", "hello\x01\xffworld"),
             Contains("byte 0: no trace format begins with 'hello??world'"));
  CHECK(
      refusal("t.pt", "PK\x03\x04") ==
      ": a pickle (.pt, .pkl) runs code when it is loaded, so it is not read; convert it where you trust it: "
      "python -c \"import torch, numpy; numpy.save('trace.npy', torch.load('trace.pt', "
      "map_location='cpu'))\" "
      "(add ['key'] after torch.load(...) where the file is a dict)");
  CHECK_THAT(refusal("t.dat", "\x80\x02}q"), Contains("a pickle"));
  CHECK_THROWS_WITH(open_trace("/no/such/file"), "/no/such/file: No such file or directory");
  const TemporaryFolder empty;
  CHECK_THROWS_WITH(open_trace(empty.path("")), Contains("a folder without per-rank files"));
  CHECK_THROWS_AS(open_trace("/dev/null"), FileError);
  TraceOptions options;
  options.format = "xml";
  CHECK_THROWS_AS(open_trace(folder().write("t.npy", "x"), options), Error);
  const std::string secret = folder().write("secret.npy", "x");
  ::chmod(secret.c_str(), 0);
  if (::access(secret.c_str(), R_OK) != 0)  // everything may be read by root
    CHECK_THROWS_WITH(open_trace(secret), secret + ": Permission denied");
}
