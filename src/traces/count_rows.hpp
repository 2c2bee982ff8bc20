// Counting a run of tokens' expert ids into rows per expert: the inner loop of reading a trace.
#pragma once
#include <cstdint>

namespace dropless::traces {

/// What a run of tokens added besides its counts.
struct RunFacts {
  std::int64_t unrouted = 0;        ///< ids below zero
  std::int64_t duplicate_rows = 0;  ///< tokens that name an expert twice
  bool repeats_one = true;          ///< every token named one expert top_k times
  std::int64_t bad_id = -1;         ///< index of the first id >= experts, or -1; counts are then unfinished
};

/// Adds the ids of `tokens` rows of `top_k` ids, dense and row-major, to `rows_per_expert` [experts].
RunFacts count_rows(const std::int32_t* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                    std::int64_t* rows_per_expert);

/// The same for ids of a byte, where none is unrouted. With at most 256 experts and a top_k of 1, 2, 4 or 8
/// this runs several ids a clock cycle: see count_bytes.cpp.
RunFacts count_rows(const std::uint8_t* ids, std::int64_t tokens, std::int64_t top_k, std::int64_t experts,
                    std::int64_t* rows_per_expert);

/// The largest of `count` bytes; 0 for none.
std::uint8_t largest_byte(const std::uint8_t* bytes, std::int64_t count);

}  // namespace dropless::traces
