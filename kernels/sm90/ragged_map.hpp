// The coordinates of the ragged tensor map: one map over a packed row matrix whose hardware bound, for each
// access, is the end of the rows that the access names. Loads past that end are filled with zeros and move no
// bytes; stores past it are dropped. So tails need neither padding in memory nor a map of their own.
//
// The map has dimensions {columns, 2^30, 2^31 - 2^16, 2^31 - 2^16} and byte strides {pitch, pitch, 2^34 -
// pitch}. Row r of `length` rows that start at row `begin` has coordinates {column, 2^30 - length + r, begin
// + length, 2^30}: pitch * (2^30 - length + r) + pitch * (begin + length) + (2^34 - pitch) * 2^30 = pitch *
// (begin + r) modulo 2^64, while dimension 1 ends exactly at r = length.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless::sm90 {

constexpr std::int32_t ragged_rows = 1 << 30;          // extent of dimension 1
constexpr std::int64_t ragged_origins = 0x7fff0000;    // extent of dimensions 2 and 3: 2^31 - 2^16
constexpr std::int64_t ragged_wrap_bytes = 1ll << 34;  // stride of dimension 3, plus the pitch

/// Coordinates 1 to 3 of row `row` among the `length` rows that start at `begin`. length < 2^30,
/// begin + length < ragged_origins; row may lie past length.
struct RaggedCoordinates {
  std::int32_t row, origin, wrap;
};
DROPLESS_HOST_DEVICE constexpr RaggedCoordinates ragged_coordinates(std::int32_t begin, std::int32_t length,
                                                                    std::int32_t row) {
  return {ragged_rows - length + row, begin + length, ragged_rows};
}

/// Byte offset that the hardware forms from the coordinates, modulo 2^64.
DROPLESS_HOST_DEVICE constexpr std::uint64_t ragged_offset(RaggedCoordinates at, std::uint64_t pitch_bytes) {
  return static_cast<std::uint64_t>(at.row) * pitch_bytes +
         static_cast<std::uint64_t>(at.origin) * pitch_bytes +
         static_cast<std::uint64_t>(at.wrap) * (ragged_wrap_bytes - pitch_bytes);
}

}  // namespace dropless::sm90
