// Counting bytes of expert ids with bit masks instead of a table of counters.
#pragma once
#include <cstdint>

namespace dropless::traces {

/// Tokens that one call of count_distinct_bytes takes at most.
inline constexpr std::int64_t distinct_bytes_limit = 4096;

/// Adds to `rows_per_expert` [experts] how many of the rows name each expert, and returns true; or returns
/// false and adds nothing, where the shape has no fast path, a row names an expert twice or an id is >=
/// experts.
bool count_distinct_bytes(const std::uint8_t* ids, std::int64_t tokens, std::int64_t top_k,
                          std::int64_t experts, std::int64_t* rows_per_expert);

}  // namespace dropless::traces
