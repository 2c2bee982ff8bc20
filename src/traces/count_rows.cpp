// The plain counting loop, for any id type, any top_k and any number of experts.
#include "traces/count_rows.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "traces/count_bytes.hpp"
#include "vector_clones.hpp"

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

/// Looks at all bytes of several rows at once: whether each row names different experts below `experts` (1 to
/// 256). `Row` is an unsigned integer of as many bytes as a row has ids.
template <class Row>
class DistinctRows {
 public:
  static constexpr std::int64_t at_once = 64 / sizeof(Row);

  DROPLESS_INLINE explicit DistinctRows(std::int64_t experts)
      : experts_past_128_(experts > 128),
        to_top_bit_(ones * static_cast<Row>((experts_past_128_ ? 256 : 128) - experts)) {}

  /// Of `count` rows, 1 to `at_once`.
  DROPLESS_INLINE bool operator()(const std::uint8_t* ids, std::int64_t count) const {
    Rows rows;
    if (count == at_once) {
      std::memcpy(&rows, ids, sizeof rows);
    } else {
      Row first;
      std::memcpy(&first, ids, sizeof first);
      rows = Rows{} + first;
      std::memcpy(&rows, ids, static_cast<std::size_t>(count) * sizeof first);
    }
    // A byte's top bit is set where its lower bits reach `experts`, or those of experts - 128.
    const Rows reaches = (rows & ~top_bits) + to_top_bit_;
    Rows bad = experts_past_128_ ? reaches & rows : reaches | rows;
    // Turning a row brings every two bytes together; equal ones leave a zero byte.
    for (std::size_t turn = 1; turn <= sizeof(Row) / 2; ++turn) {
      const Rows difference = rows ^ (rows << 8 * turn | rows >> 8 * (sizeof(Row) - turn));
      bad |= (difference - ones) & ~difference;
    }
    Row any = 0;
    for (int i = 0; i < at_once; ++i) any |= bad[i];
    return (any & top_bits) == 0;
  }

 private:
  typedef Row Rows __attribute__((vector_size(64)));
  static constexpr Row ones = static_cast<Row>(0x0101010101010101), top_bits = ones * 0x80;

  bool experts_past_128_;
  Row to_top_bit_;
};

/// The plain loop, but for rows that DistinctRows accepts, whose ids need no look each.
template <class Row>
DROPLESS_INLINE RunFacts count_few(const std::uint8_t* ids, std::int64_t tokens, std::int64_t experts,
                                   std::int64_t* rows_per_expert) {
  constexpr std::int64_t top_k = sizeof(Row);
  const DistinctRows<Row> are_distinct(std::min<std::int64_t>(experts, 256));
  RunFacts facts;
  for (std::int64_t token = 0; token < tokens; token += DistinctRows<Row>::at_once) {
    const std::int64_t some = std::min(tokens - token, DistinctRows<Row>::at_once);
    const std::uint8_t* some_ids = ids + token * top_k;
    if (are_distinct(some_ids, some)) {
      facts.repeats_one = false;
      for (std::int64_t i = 0; i < some * top_k; ++i) ++rows_per_expert[some_ids[i]];
      continue;
    }
    const RunFacts plain = count_plain(some_ids, some, top_k, experts, rows_per_expert);
    facts.duplicate_rows += plain.duplicate_rows;
    facts.repeats_one &= plain.repeats_one;
    if (plain.bad_id >= 0) {
      facts.bad_id = token * top_k + plain.bad_id;
      return facts;
    }
  }
  return facts;
}

DROPLESS_VECTOR_CLONES
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
    if (count_distinct_bytes(ids, some, top_k, experts, rows_per_expert)) {
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
