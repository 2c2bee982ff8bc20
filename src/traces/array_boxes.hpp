// Reading boxes (a range of indices on every axis) out of an array of any axis and memory order, in few reads
// and bounded memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "traces/array_spec.hpp"
#include "traces/axis_index.hpp"

namespace dropless::traces {

/// Half-open ranges of indices, one for each axis.
struct Box {
  std::vector<std::int64_t> begin, end;
  std::int64_t length(int axis) const { return end[at(axis)] - begin[at(axis)]; }
};

/// Numbers in the box.
std::int64_t box_size(const Box& box);

/// A box's numbers in memory, dense in the file's order; strides (in numbers) are by axis.
struct BoxNumbers {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> strides;
};

class ArrayBoxes {
 public:
  explicit ArrayBoxes(ArraySpec array);

  const ArraySpec& array() const { return array_; }
  int axes() const { return static_cast<int>(array_.shape.size()); }
  Box whole() const;
  /// Axes from the outermost to the innermost in the file.
  const std::vector<int>& file_order() const { return file_order_; }

  void read(const Box& box, BoxNumbers& numbers) const;

  /// Calls `use` with boxes of at most `limit` bytes (or one row) that cover `box`, in the file's order. The
  /// axis `row` (or -1) is never split.
  void for_each_block(const Box& box, int row, std::int64_t limit,
                      const std::function<void(const Box&)>& use) const;

 private:
  ArraySpec array_;
  std::vector<int> file_order_;
  std::vector<std::int64_t> file_strides_;  // in numbers, by axis
};

/// The boxes that cover the points whose position, counting `axes` in that order with the last one fastest,
/// is in [begin, end); in that order. Ranges of other axes are those of `box`.
std::vector<Box> boxes_of_range(const Box& box, const std::vector<int>& axes, std::int64_t begin,
                                std::int64_t end);

/// Calls use(index) for every index of the box over `axes`, the last one fastest; other axes stay at the
/// begin of the box.
template <class Use>
void for_each_index(const Box& box, const std::vector<int>& axes, Use use) {
  std::vector<std::int64_t> index = box.begin;
  for (const int axis : axes)
    if (box.length(axis) <= 0) return;
  while (true) {
    use(index);
    std::size_t turn = axes.size();
    while (turn > 0) {
      const auto axis = static_cast<std::size_t>(axes[turn - 1]);
      if (++index[axis] < box.end[axis]) break;
      index[axis] = box.begin[axis];
      --turn;
    }
    if (turn == 0) return;
  }
}

}  // namespace dropless::traces
