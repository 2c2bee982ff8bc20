// An axis as an index: axes are counted in int, as arrays' headers and options do, containers in std::size_t.
#pragma once
#include <cstddef>

namespace dropless::traces {

inline std::size_t at(int axis) { return static_cast<std::size_t>(axis); }

}  // namespace dropless::traces
