// Synthetic routing traces. Random numbers and tables are integers of fixed width and IEEE operations that
// every machine rounds alike, so that a seed means one file.
#include "dropless/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <vector>

#include "dropless/integer_math.hpp"
#include "output_file.hpp"

namespace dropless {
namespace {

/// SplitMix64 (Steele, Lea and Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t state) : state_(state) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// Uniform below `bound`, to within 2^-32 of each value's share.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * std::uint64_t{bound}) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// A stream of its own for each layer and sequence.
Random stream(std::uint64_t seed, std::int64_t layer, std::int64_t sequence) {
  Random outer(seed ^ Random(static_cast<std::uint64_t>(layer)).next());
  return Random(outer.next() ^ Random(~static_cast<std::uint64_t>(sequence)).next());
}

/// Weights of a layer's experts, in units of 2^-32 of the largest possible one and at least 1: coarse enough
/// that the last bit of a machine's pow() does not matter.
std::vector<std::uint64_t> expert_weights(const SynthOptions& options, std::int64_t layer) {
  const auto experts = static_cast<std::size_t>(options.experts);
  const auto weight = [](double share) {
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::llround(share * 0x1p32)));
  };
  std::vector<std::uint64_t> weights(experts, 1);
  if (options.model == RouterModel::uniform) return weights;
  Random random = stream(options.seed, layer, -1);
  if (options.model == RouterModel::zipf) {
    for (std::size_t rank = 0; rank < experts; ++rank)
      weights[rank] = weight(std::pow(static_cast<double>(rank + 1), -options.exponent));
    for (std::size_t i = experts; i > 1; --i)
      std::swap(weights[i - 1], weights[random.below(static_cast<std::uint32_t>(i))]);
    return weights;
  }
  if (experts > 1)
    std::fill(weights.begin(), weights.end(),
              weight((1 - options.hot_share) / static_cast<double>(experts - 1)));
  weights[random.below(static_cast<std::uint32_t>(experts))] = weight(options.hot_share);
  return weights;
}

/// Draws an expert in constant time (Walker's alias method): a column, then the column's own expert or its
/// alias.
class ExpertTable {
 public:
  explicit ExpertTable(std::vector<std::uint64_t> weights)
      : weights_(std::move(weights)), columns_(weights_.size()) {
    const std::uint64_t experts = weights_.size();
    const std::uint64_t sum = std::accumulate(weights_.begin(), weights_.end(), std::uint64_t{0});
    std::vector<std::uint64_t> scaled(experts);
    std::vector<std::uint32_t> small, large;
    for (std::uint32_t e = 0; e < experts; ++e) {
      scaled[e] = weights_[e] * experts;
      (scaled[e] < sum ? small : large).push_back(e);
    }
    while (!small.empty() && !large.empty()) {
      const std::uint32_t under = small.back(), over = large.back();
      small.pop_back();
      const double share = static_cast<double>(scaled[under]) / static_cast<double>(sum);
      columns_[under] = {static_cast<std::uint64_t>(share * 0x1p32), over};
      scaled[over] -= sum - scaled[under];
      if (scaled[over] < sum) {
        large.pop_back();
        small.push_back(over);
      }
    }
    for (const std::uint32_t e : small) columns_[e] = {std::uint64_t{1} << 32, e};
    for (const std::uint32_t e : large) columns_[e] = {std::uint64_t{1} << 32, e};
  }

  std::uint32_t draw(Random& random) const {
    const std::uint64_t bits = random.next();
    const auto column = static_cast<std::size_t>(((bits >> 32) * columns_.size()) >> 32);
    return (bits & 0xffffffff) < columns_[column].threshold ? static_cast<std::uint32_t>(column)
                                                            : columns_[column].alias;
  }

  /// A draw among the experts not in `chosen`.
  std::uint32_t draw_other(Random& random, const std::uint32_t* chosen, std::int64_t count) const {
    const auto is_chosen = [&](std::uint32_t e) {
      return std::find(chosen, chosen + count, e) != chosen + count;
    };
    // Drawing again until it is another one has the same distribution as the exact draw below, and is fast
    // unless the chosen ones weigh nearly everything.
    for (int tries = 0; tries < 32; ++tries) {
      const std::uint32_t expert = draw(random);
      if (!is_chosen(expert)) return expert;
    }
    std::uint64_t left = 0;
    for (std::uint32_t e = 0; e < weights_.size(); ++e) left += is_chosen(e) ? 0 : weights_[e];
    std::uint64_t mark = random.next() % left;
    for (std::uint32_t e = 0;; ++e) {
      if (is_chosen(e)) continue;
      if (mark < weights_[e]) return e;
      mark -= weights_[e];
    }
  }

 private:
  struct Column {
    std::uint64_t threshold = 0;
    std::uint32_t alias = 0;
  };
  std::vector<std::uint64_t> weights_;
  std::vector<Column> columns_;
};

void check(const SynthOptions& options) {
  const auto at_least = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least) throw Error(name, std::to_string(value), fmt::format("at least {}", least));
  };
  at_least("layers", options.layers, 1);
  at_least("sequences", options.sequences, 1);
  at_least("positions", options.positions, 1);
  at_least("top_k", options.top_k, 1);
  if (options.experts < options.top_k || options.experts > 65536)
    throw Error("experts", std::to_string(options.experts),
                fmt::format("top_k = {} to 65536", options.top_k));
  if (!(options.exponent >= 0 && options.exponent <= 64))
    throw Error("exponent", fmt::format("{}", options.exponent), "0 to 64");
  if (!(options.hot_share >= 0 && options.hot_share < 1))
    throw Error("hot_share", fmt::format("{}", options.hot_share), "0 to below 1");
}

std::int64_t id_bytes(const SynthOptions& options) { return options.experts <= 256 ? 1 : 2; }

std::string npy_header(const SynthOptions& options) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}, {}, {}, {}), }}",
                                   id_bytes(options) == 1 ? "|u1" : "<u2", options.layers, options.sequences,
                                   options.positions, options.top_k);
  // Magic, version and length take 10 bytes; the body starts at a multiple of 64.
  const std::size_t total =
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(header.size()) + 11, 64));
  header.resize(total - 11, ' ');
  const std::size_t length = header.size() + 1;
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(length & 255) +
         static_cast<char>(length >> 8) + header + '\n';
}

}  // namespace

std::int64_t synth_bytes(const SynthOptions& options) {
  check(options);
  std::int64_t bytes = id_bytes(options);
  for (const std::int64_t extent : {options.layers, options.sequences, options.positions, options.top_k})
    bytes = checked_product(bytes, extent, "bytes of the trace");
  return bytes;
}

void write_synth_trace(const std::string& path, const SynthOptions& options) {
  static_assert(std::endian::native == std::endian::little);
  const std::int64_t sequence_bytes = synth_bytes(options) / options.layers / options.sequences;
  OutputFile file(path);
  const std::string header = npy_header(options);
  file.write(header);
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint32_t> chosen(static_cast<std::size_t>(options.top_k));
  for (std::int64_t layer = 0; layer < options.layers; ++layer) {
    const ExpertTable table(expert_weights(options, layer));
    for (std::int64_t sequence = 0; sequence < options.sequences; ++sequence) {
      Random random = stream(options.seed, layer, sequence);
      bytes.clear();
      bytes.reserve(static_cast<std::size_t>(sequence_bytes));
      for (std::int64_t position = 0; position < options.positions; ++position)
        for (std::int64_t slot = 0; slot < options.top_k; ++slot) {
          const std::uint32_t expert = table.draw_other(random, chosen.data(), slot);
          chosen[static_cast<std::size_t>(slot)] = expert;
          bytes.push_back(static_cast<std::uint8_t>(expert & 255));
          if (id_bytes(options) == 2) bytes.push_back(static_cast<std::uint8_t>(expert >> 8));
        }
      file.write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    }
  }
  file.finish();
}

}  // namespace dropless
