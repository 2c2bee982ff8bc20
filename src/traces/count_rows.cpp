// The plain counting loop, for any id type, any top_k and any number of experts.
#include "traces/count_rows.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <vector>

#include "traces/count_bytes.hpp"

namespace dropless::traces {
namespace {

/// last_row[e] is the last row that named expert e, so that naming it again in the same row is a duplicate.
/// Rows are numbered on and on; the table is kept between calls, for a run may be a single token.
struct LastRow {
  std::vector<std::uint64_t> of_expert;
  std::uint64_t row = 0;
};

template <class Id>
RunFacts count_plain(const Id* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                     std::int64_t* rows_per_expert) {
  thread_local LastRow last;
  if (static_cast<std::int64_t>(last.of_expert.size()) < experts)
    last.of_expert.resize(static_cast<std::size_t>(experts), 0);
  RunFacts facts;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const Id* row = ids + token * top_k;
    ++last.row;
    bool duplicate = false;
    bool repeats_one = true;
    for (std::int64_t slot = 0; slot < top_k; ++slot) {
      const Id id = row[slot];
      repeats_one &= id == row[0];
      if (id < 0) {
        ++facts.unrouted;
        continue;
      }
      if (static_cast<std::int64_t>(id) >= experts) {
        facts.bad_id = token * top_k + slot;
        return facts;
      }
      const auto expert = static_cast<std::size_t>(id);
      duplicate |= last.of_expert[expert] == last.row;
      last.of_expert[expert] = last.row;
      ++rows_per_expert[expert];
    }
    facts.duplicate_rows += duplicate;
    facts.repeats_one &= repeats_one;
  }
  return facts;
}

/// Looks at all bytes of a row at once: whether they are different experts below `experts` (1 to 256). `Row`
/// is an unsigned integer of as many bytes as a row has ids.
template <class Row>
class DistinctRow {
 public:
  explicit DistinctRow(std::int64_t experts)
      : experts_past_128_(experts > 128),
        to_top_bit_(ones * static_cast<Row>((experts_past_128_ ? 256 : 128) - experts)) {}

  bool operator()(Row row) const {
    // A byte's top bit is set where its lower bits reach `experts`, or those of experts - 128.
    const Row reaches = (row & ~top_bits) + to_top_bit_;
    if (((experts_past_128_ ? reaches & row : reaches | row) & top_bits) != 0) return false;
    Row equal = 0;
    // Turning the row brings every two bytes together; equal ones leave a zero byte.
    for (int turn = 1; turn <= static_cast<int>(sizeof(Row)) / 2; ++turn) {
      const Row difference = row ^ std::rotl(row, 8 * turn);
      equal |= (difference - ones) & ~difference & top_bits;
    }
    return equal == 0;
  }

 private:
  static constexpr Row ones = static_cast<Row>(0x0101010101010101), top_bits = ones * 0x80;

  bool experts_past_128_;
  Row to_top_bit_;
};

/// The plain loop, but for rows that DistinctRow accepts, whose ids need no look each.
template <class Row>
RunFacts count_few(const std::uint8_t* ids, std::int64_t tokens, std::int64_t experts,
                   std::int64_t* rows_per_expert) {
  constexpr std::int64_t top_k = sizeof(Row);
  const DistinctRow<Row> is_distinct(std::min<std::int64_t>(experts, 256));
  RunFacts facts;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::uint8_t* row_ids = ids + token * top_k;
    Row row;
    std::memcpy(&row, row_ids, sizeof row);
    if (is_distinct(row)) {
      facts.repeats_one = false;
      for (std::int64_t slot = 0; slot < top_k; ++slot) ++rows_per_expert[row_ids[slot]];
      continue;
    }
    const RunFacts plain = count_plain(row_ids, 1, top_k, experts, rows_per_expert);
    facts.duplicate_rows += plain.duplicate_rows;
    facts.repeats_one &= plain.repeats_one;
    if (plain.bad_id >= 0) {
      facts.bad_id = token * top_k + plain.bad_id;
      return facts;
    }
  }
  return facts;
}

RunFacts count_bytes(const std::uint8_t* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                     std::int64_t* rows_per_expert) {
  if (top_k == 8) return count_few<std::uint64_t>(ids, tokens, experts, rows_per_expert);
  if (top_k == 4) return count_few<std::uint32_t>(ids, tokens, experts, rows_per_expert);
  return count_plain(ids, tokens, top_k, experts, rows_per_expert);
}

}  // namespace

RunFacts count_rows(const std::int32_t* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                    std::int64_t* rows_per_expert) {
  return count_plain(ids, tokens, top_k, experts, rows_per_expert);
}

RunFacts count_rows(const std::uint8_t* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                    std::int64_t* rows_per_expert) {
  RunFacts facts;
  const std::uint8_t* first = ids;
  while (tokens > 0) {
    const std::int64_t some = std::min(tokens, distinct_bytes_limit);
    std::array<std::int64_t, 256> distinct{};
    if (count_distinct_bytes(ids, some, top_k, experts, distinct.data())) {
      for (std::int64_t e = 0; e < std::min<std::int64_t>(experts, 256); ++e)
        rows_per_expert[e] += distinct[static_cast<std::size_t>(e)];
      facts.repeats_one &= top_k == 1;
    } else {
      const RunFacts plain = count_bytes(ids, some, top_k, experts, rows_per_expert);
      facts.duplicate_rows += plain.duplicate_rows;
      facts.repeats_one &= plain.repeats_one;
      if (plain.bad_id >= 0) {
        facts.bad_id = (ids - first) + plain.bad_id;
        return facts;
      }
    }
    ids += some * top_k;
    tokens -= some;
  }
  return facts;
}

}  // namespace dropless::traces
