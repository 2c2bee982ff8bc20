// Shapes as text, and their sizes without wrapping.
#include "traces/array_spec.hpp"

#include <fmt/format.h>

#include <limits>

#include "dropless/error.hpp"

namespace dropless::traces {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

std::int64_t checked_size(const std::vector<std::int64_t>& shape, std::int64_t bytes, const std::string& path,
                          const std::string& place) {
  std::int64_t count = 1;
  std::int64_t largest = std::numeric_limits<std::int64_t>::max() / bytes;
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) throw FileError(path, place, "the shape " + shape_text(shape) + " has a negative extent");
    empty = empty || extent == 0;
  }
  if (empty) return 0;
  for (const std::int64_t extent : shape) {
    if (extent > largest / count)
      throw FileError(path, place, "the shape " + shape_text(shape) + " has more than 2^63 bytes");
    count *= extent;
  }
  return count;
}

}  // namespace dropless::traces
