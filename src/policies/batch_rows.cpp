// The sums over experts. Few rows an expert: experts are counted by their rows, eight numbers of rows at a
// time, each in a byte of every lane of a vector. More rows: counts are narrowed to 32 bits, and the
// compiler's vectoriser turns each loop into a few instructions per 16 experts.
#include "dropless/batch_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dropless/error.hpp"
#include "dropless/integer_math.hpp"
#include "vector_clones.hpp"

namespace dropless {
namespace {

/// Multiples up to this are answered from the narrow copy, whose rounded sums must therefore fit 32 bits.
constexpr std::int64_t largest_narrow_multiple = 4096;

constexpr std::size_t lanes = 8;
typedef std::uint64_t Lanes __attribute__((vector_size(8 * lanes)));

/// Byte i: how many of at most 255 experts have least + i rows.
DROPLESS_VECTOR_CLONES
std::uint64_t experts_with_8(const std::int64_t* counts, std::size_t experts, std::uint64_t least) {
  const Lanes one = Lanes{} + 1;
  Lanes bytes = {};
  for (std::size_t e = 0; e < experts; e += lanes) {
    Lanes level = ~Lanes{};
    if (experts - e >= lanes)
      std::memcpy(&level, counts + e, sizeof level);
    else
      std::memcpy(&level, counts + e, (experts - e) * sizeof *counts);
    level -= least;
    bytes += one << (level & 7) * 8 & (Lanes)(level < 8);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < lanes; ++i) sum += bytes[i];
  return sum;
}

DROPLESS_VECTOR_CLONES
std::uint32_t levels_rounded_up(const std::uint32_t* experts_with, std::size_t levels, std::uint32_t mask) {
  std::uint32_t sum = 0;
  for (std::uint32_t t = 0; t < levels; ++t) sum += experts_with[t] * ((t + mask) & ~mask);
  return sum;
}

DROPLESS_VECTOR_CLONES
std::uint32_t levels_capped(const std::uint32_t* experts_with, std::size_t levels, std::uint32_t capacity) {
  std::uint32_t sum = 0;
  for (std::uint32_t t = 0; t < levels; ++t) sum += experts_with[t] * std::min(t, capacity);
  return sum;
}

struct NarrowSums {
  std::uint64_t rows, squares;
  std::uint32_t largest, active;
};

/// Copies 64-bit counts to 32 bits; returns the union of their bits, which tells whether all of them fitted.
DROPLESS_VECTOR_CLONES
std::uint64_t narrow(const std::int64_t* counts, std::size_t experts, std::uint32_t* narrowed) {
  std::uint64_t bits = 0;
  for (std::size_t e = 0; e < experts; ++e) {
    bits |= static_cast<std::uint64_t>(counts[e]);
    narrowed[e] = static_cast<std::uint32_t>(counts[e]);
  }
  return bits;
}

DROPLESS_VECTOR_CLONES
NarrowSums narrow_sums(const std::uint32_t* counts, std::size_t experts) {
  NarrowSums sums{};
  for (std::size_t e = 0; e < experts; ++e) {
    sums.rows += counts[e];
    sums.squares += static_cast<std::uint64_t>(counts[e]) * counts[e];
    sums.largest = std::max(sums.largest, counts[e]);
    sums.active += counts[e] != 0;
  }
  return sums;
}

DROPLESS_VECTOR_CLONES
std::uint32_t narrow_rounded_up(const std::uint32_t* counts, std::size_t experts, std::uint32_t mask) {
  std::uint32_t sum = 0;
  for (std::size_t e = 0; e < experts; ++e) sum += (counts[e] + mask) & ~mask;
  return sum;
}

DROPLESS_VECTOR_CLONES
std::uint64_t narrow_capped(const std::uint32_t* counts, std::size_t experts, std::uint32_t capacity) {
  std::uint64_t sum = 0;
  for (std::size_t e = 0; e < experts; ++e) sum += std::min(counts[e], capacity);
  return sum;
}

// With these bounds no sum or byte count that a policy forms of a batch comes near 2^63.
constexpr std::int64_t most_rows = std::int64_t{1} << 40, most_experts = 65536;

}  // namespace

void BatchRows::assign(ArrayView<const std::int64_t> rows_per_expert, std::int64_t tokens,
                       std::int64_t top_k) {
  const std::int64_t count = static_cast<std::int64_t>(rows_per_expert.size());
  if (count > most_experts) throw Error("experts", std::to_string(count), "at most 65536");
  rows_per_expert_ = rows_per_expert;
  tokens_ = tokens;
  top_k_ = top_k;
  rounded_to_power_.fill(-1);
  narrow_.clear();
  if (!sum_levels() && !sum_narrow()) sum_wide();
}

bool BatchRows::sum_levels() {
  levels_ = 0;
  // A mean of half the levels hardly ever leaves all experts within them.
  const double mean_of_few = static_cast<double>(experts_with_.size()) / 2;
  if (static_cast<double>(tokens_) * static_cast<double>(top_k_) >
      mean_of_few * static_cast<double>(experts()))
    return false;
  constexpr std::size_t most_at_once = 248;  // a byte counts them, and so many fill whole vectors
  std::size_t left = rows_per_expert_.size(), levels = 0;
  std::uint32_t rows = 0, squares = 0, largest = 0;
  for (; left > 0; levels += 8) {
    if (levels == experts_with_.size()) return false;
    std::array<std::uint32_t, 8> with{};
    for (std::size_t e = 0; e < rows_per_expert_.size(); e += most_at_once) {
      const std::uint64_t bytes = experts_with_8(rows_per_expert_.data() + e,
                                                 std::min(most_at_once, rows_per_expert_.size() - e), levels);
      for (std::size_t i = 0; i < 8; ++i) with[i] += static_cast<std::uint8_t>(bytes >> 8 * i);
    }
    for (std::size_t i = 0; i < 8; ++i) {
      const auto level = static_cast<std::uint32_t>(levels + i);
      experts_with_[level] = with[i];
      left -= with[i];
      rows += with[i] * level;
      squares += with[i] * level * level;
      largest = with[i] > 0 ? level : largest;
    }
  }
  levels_ = levels;
  rows_ = rows;
  largest_ = largest;
  active_experts_ = experts() - (levels > 0 ? experts_with_[0] : 0);
  sum_of_squares_ = squares;
  return true;
}

bool BatchRows::sum_narrow() {
  narrow_.resize(rows_per_expert_.size());
  const std::uint64_t bits = narrow(rows_per_expert_.data(), rows_per_expert_.size(), narrow_.data());
  if (bits >> 31 == 0) {
    const NarrowSums sums = narrow_sums(narrow_.data(), narrow_.size());
    rows_ = static_cast<std::int64_t>(sums.rows);
    largest_ = sums.largest;
    active_experts_ = sums.active;
    // Below 2^31 rows in all, the squares sum to less than 2^62.
    sum_of_squares_ = static_cast<double>(sums.squares);
    if (rows_ + experts() * largest_narrow_multiple < std::int64_t{1} << 31) return true;
  }
  narrow_.clear();
  return false;
}

void BatchRows::sum_wide() {
  rows_ = largest_ = active_experts_ = 0;
  sum_of_squares_ = 0;
  for (std::size_t e = 0; e < rows_per_expert_.size(); ++e) {
    const std::int64_t rows = rows_per_expert_[e];
    if (rows < 0) throw Error("rows of expert " + std::to_string(e), std::to_string(rows), "0 or more");
    if (rows > most_rows - rows_) throw Error("rows of a batch", "more than 2^40", "at most 2^40");
    rows_ += rows;
    largest_ = std::max(largest_, rows);
    active_experts_ += rows != 0;
    sum_of_squares_ += static_cast<double>(rows) * static_cast<double>(rows);
  }
}

std::int64_t BatchRows::sum_rounded_up(std::int64_t multiple) const {
  const auto bits = static_cast<std::uint64_t>(multiple);
  const bool remembered = (bits & (bits - 1)) == 0 && multiple <= largest_narrow_multiple;
  const auto power = remembered ? static_cast<std::size_t>(std::countr_zero(bits)) : 0;
  if (remembered && rounded_to_power_[power] >= 0) return rounded_to_power_[power];
  std::int64_t sum = 0;
  const auto mask = static_cast<std::uint32_t>(multiple - 1);
  if (remembered && levels_ > 0)
    sum = levels_rounded_up(experts_with_.data(), levels_, mask);
  else if (remembered && !narrow_.empty())
    sum = narrow_rounded_up(narrow_.data(), narrow_.size(), mask);
  else
    for (const std::int64_t rows : rows_per_expert_) sum += round_up(rows, multiple);
  if (remembered) rounded_to_power_[power] = sum;
  return sum;
}

std::int64_t BatchRows::sum_capped(std::int64_t capacity) const {
  std::int64_t sum = 0;
  const auto most = static_cast<std::uint32_t>(capacity);
  if (levels_ > 0) return levels_capped(experts_with_.data(), levels_, most);
  if (!narrow_.empty()) return static_cast<std::int64_t>(narrow_capped(narrow_.data(), narrow_.size(), most));
  for (const std::int64_t rows : rows_per_expert_) sum += std::min(rows, capacity);
  return sum;
}

}  // namespace dropless
