// Counting bytes of expert ids with bit masks instead of a table of counters.
//
// A table costs a load, an add and a store for each id, which is the speed limit of a plain histogram. Here a
// token's ids become one set of bits (bit e: the token names expert e), eight tokens side by side in a
// vector, and the sets of many tokens are summed by carry-save adders: plane p holds bit p of 64 counters at
// once. A token that names an expert twice sets one bit only, so the counts then miss rows; that is how
// duplicates are noticed, and the caller counts those tokens the plain way.
#include "traces/count_bytes.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "dropless/integer_math.hpp"
#include "traces/count_rows.hpp"
#include "vector_clones.hpp"

namespace dropless::traces {
namespace {

constexpr int lanes = 8;
typedef std::uint64_t Lanes __attribute__((vector_size(8 * lanes)));

/// One full adder of bits: low and carry of a + b + c, in place.
DROPLESS_INLINE void add_bits(Lanes& low, Lanes& carry, const Lanes& a, const Lanes& b) {
  const Lanes half = a ^ b;
  carry = (a & b) | (half & low);
  low ^= half;
}

/// 64 counters in each lane, held as bit planes. A lane counts to 2^planes - 1, and gets an eighth of the
/// tokens.
constexpr int planes = 10;
static_assert(distinct_bytes_limit / lanes < 1 << planes);

struct BitCounters {
  Lanes plane[planes] = {};

  /// Adds eight masks.
  DROPLESS_INLINE void add8(const Lanes (&mask)[8]) {
    Lanes two[4], four[2], eight;
    for (int i = 0; i < 4; ++i) add_bits(plane[0], two[i], mask[2 * i], mask[2 * i + 1]);
    for (int i = 0; i < 2; ++i) add_bits(plane[1], four[i], two[2 * i], two[2 * i + 1]);
    add_bits(plane[2], eight, four[0], four[1]);
    for (int p = 3; p < planes; ++p) {
      const Lanes carry = plane[p] & eight;
      plane[p] ^= eight;
      eight = carry;
    }
  }

  /// Adds the 64 counters, summed over the lanes, to `counts`; `added` masks at most went into a lane.
  DROPLESS_INLINE void flush(std::int64_t added, std::int64_t* counts) const {
    // Lanes are added in the bit planes first: 64 counters at a time, no extraction.
    const int used_planes = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(added)));
    const int sum_planes = used_planes + 3;
    std::uint64_t sum[lanes][planes + 3] = {};
    for (int lane = 0; lane < lanes; ++lane)
      for (int p = 0; p < used_planes; ++p) sum[lane][p] = plane[p][lane];
    for (int width = lanes / 2; width > 0; width /= 2)
      for (int lane = 0; lane < width; ++lane) {
        std::uint64_t carry = 0;
        for (int p = 0; p < sum_planes; ++p) {
          const std::uint64_t a = sum[lane][p], b = sum[lane + width][p];
          sum[lane][p] = a ^ b ^ carry;
          carry = (a & b) | ((a ^ b) & carry);
        }
      }
    std::uint64_t expanded[64] = {};
    for (int p = 0; p < sum_planes; ++p)
      for (int bit = 0; bit < 64; ++bit) expanded[bit] += ((sum[0][p] >> bit) & 1) << p;
    for (int bit = 0; bit < 64; ++bit) counts[bit] += static_cast<std::int64_t>(expanded[bit]);
  }
};

/// `words`: 64-bit words of an expert set. top_k ids of a token are adjacent bytes of a 64-bit lane, so that
/// a lane holds 8 / top_k tokens.
template <int top_k, int words>
DROPLESS_INLINE bool count_masks(const std::uint8_t* ids, std::int64_t bytes, std::int64_t* rows_per_expert) {
  BitCounters counters[words];
  Lanes pending[words][8] = {};
  int waiting = 0;
  const auto add_pending = [&]() __attribute__((always_inline)) {
    for (int w = 0; w < words; ++w) counters[w].add8(pending[w]);
    waiting = 0;
  };
  const Lanes one = Lanes{} + 1;
  Lanes seen = {};
  for (std::int64_t at = 0; at < bytes; at += 8 * lanes) {
    Lanes row = {};
    const std::int64_t left = std::min<std::int64_t>(bytes - at, 8 * lanes);
    std::memcpy(&row, ids + at, static_cast<std::size_t>(left));
    seen |= row;
    // What lies past the end must set no bit: whole lanes, or tokens within the last one.
    const bool partial = left < 8 * lanes;
    for (int token = 0; token < 8 / top_k; ++token) {
      Lanes set[words] = {};
      for (int slot = 0; slot < top_k; ++slot) {
        const Lanes id = row >> (8 * (token * top_k + slot));
        const Lanes bit = one << (id & 63);
        if constexpr (words == 1) {
          set[0] |= bit;
        } else {
          const Lanes word = (id >> 6) & 3;
          for (int w = 0; w < words; ++w) set[w] |= bit & (Lanes)(word == Lanes{} + std::uint64_t(w));
        }
      }
      if (partial)
        for (int lane = 0; lane < lanes; ++lane)
          if (lane * 8 + token * top_k >= left)
            for (int w = 0; w < words; ++w) set[w][lane] = 0;
      for (int w = 0; w < words; ++w) pending[w][waiting] = set[w];
      if (++waiting == 8) add_pending();
    }
  }
  if (waiting > 0) {
    for (int w = 0; w < words; ++w)
      for (int i = waiting; i < 8; ++i) pending[w][i] = Lanes{};
    add_pending();
  }
  const std::int64_t masks_a_lane = ceil_div(bytes, 8 * lanes) * (8 / top_k);
  for (int w = 0; w < words; ++w) counters[w].flush(masks_a_lane, rows_per_expert + 64 * w);
  std::uint64_t seen_bits = 0;
  for (int lane = 0; lane < lanes; ++lane) seen_bits |= seen[lane];
  constexpr std::uint64_t outside = (256 - 64 * std::uint64_t{words}) * 0x0101010101010101;
  return (seen_bits & outside) == 0;
}

using CountMasks = bool (*)(const std::uint8_t*, std::int64_t, std::int64_t*);

// The same code for each instruction set: GCC and Clang choose the vector instructions by the attribute.
#if defined(__x86_64__)
template <int top_k, int words>
__attribute__((target("avx512f,avx512bw"))) bool count_avx512(const std::uint8_t* ids, std::int64_t bytes,
                                                              std::int64_t* rows_per_expert) {
  return count_masks<top_k, words>(ids, bytes, rows_per_expert);
}
template <int top_k, int words>
__attribute__((target("avx2"))) bool count_avx2(const std::uint8_t* ids, std::int64_t bytes,
                                                std::int64_t* rows_per_expert) {
  return count_masks<top_k, words>(ids, bytes, rows_per_expert);
}
#endif
template <int top_k, int words>
bool count_baseline(const std::uint8_t* ids, std::int64_t bytes, std::int64_t* rows_per_expert) {
  return count_masks<top_k, words>(ids, bytes, rows_per_expert);
}

template <int top_k, int words>
CountMasks fastest() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw")) return count_avx512<top_k, words>;
  if (__builtin_cpu_supports("avx2")) return count_avx2<top_k, words>;
#endif
  return count_baseline<top_k, words>;
}

template <int top_k>
CountMasks for_experts(std::int64_t experts) {
  static const CountMasks by_words[3] = {fastest<top_k, 1>(), fastest<top_k, 2>(), fastest<top_k, 4>()};
  return by_words[experts <= 64 ? 0 : experts <= 128 ? 1 : 2];
}

CountMasks for_shape(std::int64_t top_k, std::int64_t experts) {
  if (experts > 256) return nullptr;
  switch (top_k) {
    case 1:
      return for_experts<1>(experts);
    case 2:
      return for_experts<2>(experts);
    case 4:
      return for_experts<4>(experts);
    case 8:
      return for_experts<8>(experts);
    default:
      return nullptr;
  }
}

}  // namespace

std::uint8_t largest_byte(const std::uint8_t* bytes, std::int64_t count) {
  constexpr std::int64_t width = 64;
  typedef std::uint8_t Bytes __attribute__((vector_size(width)));
  Bytes largest = {};
  for (; count > 0; bytes += width, count -= width) {
    Bytes some = {};
    if (count >= width)
      std::memcpy(&some, bytes, static_cast<std::size_t>(width));
    else
      std::memcpy(&some, bytes, static_cast<std::size_t>(count));
    largest = some > largest ? some : largest;
  }
  std::uint8_t result = 0;
  for (int i = 0; i < width; ++i) result = std::max(result, static_cast<std::uint8_t>(largest[i]));
  return result;
}

bool count_distinct_bytes(const std::uint8_t* ids, std::int64_t tokens, std::int64_t top_k,
                          std::int64_t experts, std::int64_t* rows_per_expert) {
  // A short run is not worth summing 64 counters for.
  if (tokens < 32) return false;
  const CountMasks count = for_shape(top_k, experts);
  std::array<std::int64_t, 256> found{};
  if (count == nullptr || !count(ids, tokens * top_k, found.data())) return false;
  std::int64_t rows = 0;
  for (std::int64_t e = 0; e < experts; ++e) rows += found[static_cast<std::size_t>(e)];
  if (rows != tokens * top_k) return false;
  for (std::int64_t e = 0; e < experts; ++e) rows_per_expert[e] += found[static_cast<std::size_t>(e)];
  return true;
}

}  // namespace dropless::traces
