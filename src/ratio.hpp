// The ratio of two counts, of which the second may be none.
#pragma once
#include <cstdint>

namespace dropless {

/// 0 where the whole is 0.
inline double ratio(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace dropless
