// .npy traces: number types, memory orders, header versions, axes and batches.
#include <functional>
#include <limits>
#include <numeric>

#include "catch.hpp"
#include "trace_files.hpp"
#include "traces/array_spec.hpp"

using namespace dropless;
using Rows = std::vector<std::int64_t>;

namespace {

// Three tokens of two choices: expert 0 twice, 1 once, 2 once, 3 twice.
const std::vector<int> six_ids = {0, 1, 2, 3, 3, 0};
const Rows six_rows = {2, 1, 1, 2};

template <class T>
std::string body_of(const std::vector<int>& numbers, bool swapped = false) {
  std::string bytes;
  for (const int number : numbers) {
    std::string one = raw_bytes(std::vector<T>{static_cast<T>(number)});
    bytes += swapped ? std::string(one.rbegin(), one.rend()) : one;
  }
  return bytes;
}

Rows rows_of(const std::string& npy, const TraceOptions& options = {}) {
  const TemporaryFolder folder;
  return keep_trace(folder.write("trace.npy", npy), options).rows(0, 0);
}

TraceOptions with_axes(std::vector<Axis> axes) {
  TraceOptions options;
  options.axes = std::move(axes);
  return options;
}

}  // namespace

TEST_CASE("npy: every integer and float type, in both byte orders", "[trace][npy]") {
  for (const bool swapped : {false, true}) {
    const std::string order = swapped ? ">" : "<";
    CHECK(rows_of(npy_bytes("|u1", "(3, 2)", body_of<std::uint8_t>(six_ids))) == six_rows);
    CHECK(rows_of(npy_bytes("|i1", "(3, 2)", body_of<std::int8_t>(six_ids))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "i2", "(3, 2)", body_of<std::int16_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "u2", "(3, 2)", body_of<std::uint16_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "i4", "(3, 2)", body_of<std::int32_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "u4", "(3, 2)", body_of<std::uint32_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "i8", "(3, 2)", body_of<std::int64_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "u8", "(3, 2)", body_of<std::uint64_t>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "f4", "(3, 2)", body_of<float>(six_ids, swapped))) == six_rows);
    CHECK(rows_of(npy_bytes(order + "f8", "(3, 2)", body_of<double>(six_ids, swapped))) == six_rows);
  }
  // Half precision: 0, 1, 2 and 3.
  const std::vector<std::uint16_t> halves = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4200, 0x0000};
  CHECK(rows_of(npy_bytes("<f2", "(3, 2)", raw_bytes(halves))) == six_rows);
}

TEST_CASE("npy: Fortran order and header versions 1 to 3", "[trace][npy]") {
  const std::string in_columns = body_of<std::uint8_t>({0, 2, 3, 1, 3, 0});
  const TemporaryFolder folder;
  const KeptTrace fortran = keep_trace(folder.write("f.npy", npy_bytes("|u1", "(3, 2)", in_columns, true)));
  CHECK(fortran.rows(0, 0) == six_rows);
  CHECK(fortran.info.top_k == 2);
  CHECK(fortran.batches.at({0, 0}).tokens == 3);

  const std::string version1 = npy_bytes("|u1", "(3, 2)", body_of<std::uint8_t>(six_ids));
  for (const char version : {'\x02', '\x03'}) {
    std::string bytes = version1.substr(0, 6) + version + '\0' + version1.substr(8, 2) +
                        std::string(2, '\0') + version1.substr(10);
    CHECK(rows_of(bytes) == six_rows);
  }
}

TEST_CASE("npy: default axes by the number of dimensions", "[trace][npy]") {
  const TemporaryFolder folder;
  const KeptTrace counts =
      keep_trace(folder.write("1.npy", npy_bytes("<i8", "(3,)", body_of<std::int64_t>({5, 0, 7}))));
  CHECK(counts.info.counts_only);
  CHECK(counts.info.top_k == 0);
  CHECK(counts.rows(0, 0) == Rows{5, 0, 7});

  // [tokens][layers][slots]
  const KeptTrace vllm = keep_trace(
      folder.write("3.npy", npy_bytes("|u1", "(2, 2, 2)", body_of<std::uint8_t>({0, 1, 2, 3, 0, 2, 2, 3}))));
  CHECK(vllm.info.layers == Rows{0, 1});
  CHECK(vllm.rows(0, 0) == Rows{2, 1, 1, 0});
  CHECK(vllm.rows(1, 0) == Rows{0, 0, 2, 2});

  // [layers][sequences][positions][slots]: a sequence is a batch
  const KeptTrace own = keep_trace(
      folder.write("4.npy", npy_bytes("|u1", "(1, 2, 2, 1)", body_of<std::uint8_t>({0, 1, 1, 1}))));
  CHECK(own.batches.size() == 2);
  CHECK(own.rows(0, 0) == Rows{1, 1});
  CHECK(own.rows(0, 1) == Rows{0, 2});
  CHECK(own.info.experts_inferred);
  CHECK(own.info.assumptions.size() == 2);
}

TEST_CASE("npy: an axis of more than 256 is not guessed to be the layers'", "[trace][npy]") {
  const TemporaryFolder folder;
  const auto of_shape = [&](const std::vector<std::int64_t>& shape) {
    const auto ids = std::accumulate(shape.begin(), shape.end(), std::size_t{1}, std::multiplies<>());
    return folder.write("a.npy", npy_bytes("|u1", traces::shape_text(shape), std::string(ids, '\1')));
  };
  const auto axes_read = [](const std::string& path) {
    const std::string note = open_trace(path)->info().assumptions.at(0);
    const std::size_t begin = note.find("to be ") + 6;
    return note.substr(begin, note.find(" (state") - begin);
  };
  CHECK(axes_read(of_shape({4, 256, 2})) == "token,layer,slot");
  CHECK(axes_read(of_shape({4, 257, 2})) == "layer,token,slot");
  CHECK(axes_read(of_shape({1000, 48, 2})) == "token,layer,slot");
  CHECK(axes_read(of_shape({256, 2, 3, 2})) == "layer,sequence,position,slot");
  CHECK(axes_read(of_shape({257, 2, 3, 2})) == "sequence,position,layer,slot");
  const KeptTrace stacked = keep_trace(of_shape({4, 4096, 2}));
  CHECK(stacked.info.layers == Rows{0, 1, 2, 3});
  CHECK(stacked.batches.at({3, 0}).tokens == 4096);

  const std::string neither = of_shape({257, 258, 2});
  CHECK_THROWS_WITH(
      open_trace(neither),
      neither +
          ": the shape (257, 258, 2) does not tell which axis is the layers' (more than 256 are "
          "not guessed): name the axes with --axes, none of them layer where there is one layer");
  CHECK(keep_trace(neither, with_axes({Axis::sequence, Axis::position, Axis::slot})).batches.size() == 257);
  CHECK(keep_trace(neither, with_axes({Axis::token, Axis::layer, Axis::slot})).info.layers.size() == 258);
}

TEST_CASE("npy: counts by layer, step and rank; steps are batches and ranks are summed", "[trace][npy]") {
  const TemporaryFolder folder;
  const std::string path =
      folder.write("c.npy", npy_bytes("<f8", "(2, 2, 2)", body_of<double>({1, 2, 3, 4, 10, 20, 30, 40})));
  const KeptTrace steps = keep_trace(path, with_axes({Axis::step, Axis::layer, Axis::expert}));
  CHECK(steps.rows(1, 0) == Rows{3, 4});
  CHECK(steps.rows(1, 1) == Rows{30, 40});
  TraceOptions options = with_axes({Axis::rank, Axis::layer, Axis::expert});
  options.top_k = 2;
  const KeptTrace ranks = keep_trace(path, options);
  CHECK(ranks.rows(1, 0) == Rows{33, 44});
  CHECK(ranks.batches.at({1, 0}).tokens == 77 / 2);
}

TEST_CASE("npy: options that do not fit the array are errors that name them", "[trace][npy]") {
  const TemporaryFolder folder;
  const std::string path = folder.write("t.npy", npy_bytes("|u1", "(3, 2)", body_of<std::uint8_t>(six_ids)));
  TraceOptions options = with_axes({Axis::token});
  CHECK_THROWS_WITH(open_trace(path, options), "axes is token; expected 2 names for the shape (3, 2)");
  CHECK_THROWS_AS(open_trace(path, with_axes({Axis::slot, Axis::slot})), Error);
  CHECK_THROWS_AS(open_trace(path, with_axes({Axis::slot, Axis::expert})), Error);
  options = {};
  options.top_k = 3;
  CHECK_THROWS_WITH(open_trace(path, options), "top_k is 3; expected 2, the extent of the slot axis");
  options = {};
  options.layers = {1};
  CHECK_THROWS_AS(open_trace(path, options), Error);
  options = {};
  options.batch_axes_given = true;
  options.batch_axes = {Axis::sequence};
  CHECK_THROWS_AS(open_trace(path, options), Error);
  CHECK_THROWS_WITH(
      axis_from_name("head"),
      "axis is 'head'; expected one of layer, step, sequence, position, token, slot, expert, rank");
}

TEST_CASE("npy: arrays whose axes no default names", "[trace][npy]") {
  const TemporaryFolder folder;
  const std::string number = folder.write("0d.npy", npy_bytes("|u1", "()", "\x03"));
  CHECK_THROWS_WITH(open_trace(number),
                    number + ": holds a single number, not an array of expert ids or counts");
  const std::string five = folder.write("5d.npy", npy_bytes("|u1", "(1, 1, 1, 1, 2)", std::string(2, '\0')));
  CHECK_THROWS_WITH(open_trace(five),
                    five + ": the shape (1, 1, 1, 1, 2) has 5 axes, which --axes has to name");
}

TEST_CASE("npy: no tokens, and tokens that are all unrouted", "[trace][npy]") {
  const TemporaryFolder folder;
  TraceOptions options;
  options.experts = 4;
  const KeptTrace empty = keep_trace(folder.write("0.npy", npy_bytes("|u1", "(0, 2)", "")), options);
  CHECK(empty.batches.empty());
  CHECK(empty.layers.at(0).tokens == 0);
  const std::string path = folder.write("u.npy", npy_bytes("|i1", "(2, 2)", std::string(4, '\xff')));
  const KeptTrace unrouted = keep_trace(path, options);
  CHECK(unrouted.batches.at({0, 0}).unrouted == 4);
  CHECK(unrouted.rows(0, 0) == Rows{0, 0, 0, 0});
  CHECK(unrouted.layers.at(0).dense);
  CHECK_THROWS_AS(open_trace(path), FileError);
}
