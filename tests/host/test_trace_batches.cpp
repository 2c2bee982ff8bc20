// Arrays of random shapes, axis orders and batches against the plainest possible count.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;

namespace {

/// A random array of expert ids and how it is to be read.
struct Case {
  std::vector<Axis> axes;
  std::vector<std::int64_t> shape;
  std::vector<std::int16_t> ids;  ///< C order
  bool fortran = false;
  TraceOptions options;
};

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t operator()(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }

 private:
  std::mt19937_64 engine_;
};

std::vector<std::int64_t> index_of(std::int64_t at, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; at /= shape[axis]) index[axis] = at % shape[axis];
  return index;
}

Case random_case(Random& random) {
  Case made;
  made.axes = {Axis::layer, Axis::sequence, Axis::position, Axis::slot};
  for (std::size_t i = 4; i > 1; --i)
    std::swap(made.axes[i - 1],
              made.axes[static_cast<std::size_t>(random(0, static_cast<std::int64_t>(i) - 1))]);
  if (random(0, 1) == 0) {  // the slots innermost, as most files have them
    made.axes.erase(std::find(made.axes.begin(), made.axes.end(), Axis::slot));
    made.axes.push_back(Axis::slot);
  }
  const std::int64_t top_ks[] = {1, 2, 3, 4, 8};
  for (const Axis axis : made.axes)
    made.shape.push_back(axis == Axis::slot    ? top_ks[random(0, 4)]
                         : axis == Axis::layer ? random(1, 3)
                                               : random(1, 40));
  const std::int64_t size =
      std::accumulate(made.shape.begin(), made.shape.end(), std::int64_t{1}, std::multiplies<>());
  const std::int64_t experts[] = {3, 64, 100, 256, 300};
  made.options.experts = experts[random(0, 4)];
  const std::int64_t low = random(0, 3) == 0 ? -1 : 0;
  for (std::int64_t i = 0; i < size; ++i)
    made.ids.push_back(static_cast<std::int16_t>(random(low, made.options.experts - 1)));
  if (random(0, 1) == 0) {  // the layers start with identical rows
    const std::int64_t identical = random(0, 600);
    for (std::int64_t i = 0; i < size; ++i) {
      std::int64_t token = 0, slot = 0;
      const auto index = index_of(i, made.shape);
      for (std::size_t axis = 0; axis < made.axes.size(); ++axis) {
        if (made.axes[axis] == Axis::slot) slot = index[axis];
        if (made.axes[axis] == Axis::sequence || made.axes[axis] == Axis::position)
          token = token * made.shape[axis] + index[axis];
      }
      if (token < identical)
        made.ids[static_cast<std::size_t>(i)] = static_cast<std::int16_t>(slot % made.options.experts);
    }
  }
  made.fortran = random(0, 2) == 0;
  made.options.axes = made.axes;
  made.options.drop_warmup = random(0, 1) == 0;
  if (random(0, 2) == 0) {
    made.options.batch_tokens = random(1, 200);
  } else {
    made.options.batch_axes_given = true;
    for (const Axis axis : made.axes)
      if ((axis == Axis::sequence || axis == Axis::position) && random(0, 1) == 0)
        made.options.batch_axes.push_back(axis);
  }
  return made;
}

std::string npy_of(const Case& made) {
  std::string shape = "(";
  for (const std::int64_t extent : made.shape) shape += std::to_string(extent) + ", ";
  std::vector<std::int16_t> stored = made.ids;
  if (made.fortran) {
    const std::vector<std::int64_t> reversed(made.shape.rbegin(), made.shape.rend());
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const auto index = index_of(static_cast<std::int64_t>(i), made.shape);
      std::int64_t at = 0;
      for (std::size_t axis = made.shape.size(); axis-- > 0;) at = at * made.shape[axis] + index[axis];
      stored[static_cast<std::size_t>(at)] = made.ids[i];
    }
  }
  return npy_bytes("<i2", shape + ")", raw_bytes(stored), made.fortran);
}

/// A layer's tokens in order, each with its batch axes' index and its ids by slot.
struct Token {
  std::int64_t batch = 0;
  std::vector<std::int64_t> ids;
};

std::vector<std::vector<Token>> tokens_of(const Case& made) {
  const auto extent = [&](Axis axis) {
    return made.shape[static_cast<std::size_t>(std::find(made.axes.begin(), made.axes.end(), axis) -
                                               made.axes.begin())];
  };
  const std::int64_t tokens = extent(Axis::sequence) * extent(Axis::position);
  std::vector<std::vector<Token>> layers(static_cast<std::size_t>(extent(Axis::layer)),
                                         std::vector<Token>(static_cast<std::size_t>(tokens)));
  for (std::size_t i = 0; i < made.ids.size(); ++i) {
    const auto index = index_of(static_cast<std::int64_t>(i), made.shape);
    std::int64_t token = 0, batch = 0, layer = 0, slot = 0;
    for (std::size_t axis = 0; axis < made.axes.size(); ++axis) {
      const Axis name = made.axes[axis];
      if (name == Axis::layer) layer = index[axis];
      if (name == Axis::slot) slot = index[axis];
      if (name != Axis::sequence && name != Axis::position) continue;
      token = token * made.shape[axis] + index[axis];
      const auto& batch_axes = made.options.batch_axes;
      if (std::find(batch_axes.begin(), batch_axes.end(), name) != batch_axes.end())
        batch = batch * made.shape[axis] + index[axis];
    }
    Token& of = layers[static_cast<std::size_t>(layer)][static_cast<std::size_t>(token)];
    of.batch = batch;
    of.ids.resize(static_cast<std::size_t>(extent(Axis::slot)));
    of.ids[static_cast<std::size_t>(slot)] = made.ids[i];
  }
  return layers;
}

KeptTrace plain_count(const Case& made) {
  KeptTrace expected;
  const auto experts = static_cast<std::size_t>(made.options.experts);
  std::int64_t layer_number = 0;
  for (const auto& tokens : tokens_of(made)) {
    LayerFacts facts;
    facts.layer = layer_number;
    std::int64_t identical = 0;
    while (identical < static_cast<std::int64_t>(tokens.size()) &&
           tokens[static_cast<std::size_t>(identical)].ids == tokens[0].ids)
      ++identical;
    if (identical >= 256 && identical < static_cast<std::int64_t>(tokens.size()))
      facts.warmup_rows = identical;
    bool repeats_one = tokens[0].ids.size() > 1, any_row = false;
    for (std::int64_t t = 0; t < static_cast<std::int64_t>(tokens.size()); ++t) {
      const Token& token = tokens[static_cast<std::size_t>(t)];
      repeats_one &= std::set<std::int64_t>(token.ids.begin(), token.ids.end()).size() == 1;
      const bool warm = t < facts.warmup_rows;
      if (warm && made.options.drop_warmup) continue;
      const std::int64_t dropped = made.options.drop_warmup ? facts.warmup_rows : 0;
      const std::int64_t batch =
          made.options.batch_tokens > 0 ? (t - dropped) / made.options.batch_tokens : token.batch;
      KeptBatch& kept = expected.batches[{layer_number, batch}];
      kept.rows.resize(experts);
      ++kept.tokens;
      kept.warmup_rows += warm;
      if (warm) kept.warmup.resize(experts);
      std::set<std::int64_t> seen;
      bool duplicate = false;
      for (const std::int64_t id : token.ids) {
        if (id < 0) {
          ++kept.unrouted;
          continue;
        }
        duplicate |= !seen.insert(id).second;
        ++kept.rows[static_cast<std::size_t>(id)];
        if (warm) ++kept.warmup[static_cast<std::size_t>(id)];
        any_row = true;
      }
      kept.duplicate_rows += duplicate;
      facts.duplicate_rows += duplicate;
      ++facts.tokens;
    }
    facts.dense = repeats_one || !any_row;
    expected.layers.push_back(facts);
    ++layer_number;
  }
  return expected;
}

}  // namespace

TEST_CASE("arrays of any axis order are counted like a plain loop counts them", "[trace][batches]") {
  const TemporaryFolder folder;
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    const Case made = random_case(random);
    CAPTURE(round, made.shape, made.fortran, made.options.batch_tokens, made.options.drop_warmup,
            made.options.experts);
    const KeptTrace expected = plain_count(made);
    const KeptTrace kept =
        keep_trace(folder.write("t.npy", npy_of(made)), made.options, static_cast<int>(random(1, 3)));
    REQUIRE(kept.batches.size() == expected.batches.size());
    for (const auto& [key, batch] : expected.batches) {
      const KeptBatch& found = kept.batches.at(key);
      CAPTURE(key.first, key.second);
      REQUIRE(found.rows == batch.rows);
      REQUIRE(found.tokens == batch.tokens);
      REQUIRE(found.unrouted == batch.unrouted);
      REQUIRE(found.duplicate_rows == batch.duplicate_rows);
      REQUIRE(found.warmup_rows == batch.warmup_rows);
      REQUIRE(found.warmup == batch.warmup);
    }
    for (std::size_t layer = 0; layer < expected.layers.size(); ++layer) {
      REQUIRE(kept.layers[layer].tokens == expected.layers[layer].tokens);
      REQUIRE(kept.layers[layer].warmup_rows == expected.layers[layer].warmup_rows);
      REQUIRE(kept.layers[layer].duplicate_rows == expected.layers[layer].duplicate_rows);
      REQUIRE(kept.layers[layer].dense == expected.layers[layer].dense);
    }
  }
}

TEST_CASE("selected layers alone are delivered, whatever the layer axis' place", "[trace][batches]") {
  const TemporaryFolder folder;
  Random random(8);
  for (int round = 0; round < 40; ++round) {
    Case made = random_case(random);
    const std::string path = folder.write("t.npy", npy_of(made));
    const KeptTrace all = keep_trace(path, made.options);
    const std::int64_t layer = random(0, static_cast<std::int64_t>(all.layers.size()) - 1);
    made.options.layers = {layer};
    const KeptTrace one = keep_trace(path, made.options);
    REQUIRE(one.info.layers == std::vector<std::int64_t>{layer});
    for (const auto& [key, batch] : all.batches)
      REQUIRE(one.batches.count(key) == (key.first == layer ? 1 : 0));
    for (const auto& [key, batch] : one.batches) REQUIRE(batch.rows == all.batches.at(key).rows);
  }
}
