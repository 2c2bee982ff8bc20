// Boxes to byte ranges: the axes that lie whole at the inner end of the file make one run, which one read
// takes.
#include "traces/array_boxes.hpp"

#include <algorithm>
#include <numeric>

namespace dropless::traces {

std::int64_t box_size(const Box& box) {
  std::int64_t size = 1;
  for (int axis = 0; axis < static_cast<int>(box.begin.size()); ++axis) size *= box.length(axis);
  return size;
}

ArrayBoxes::ArrayBoxes(ArraySpec array) : array_(std::move(array)) {
  file_order_.resize(array_.shape.size());
  std::iota(file_order_.begin(), file_order_.end(), 0);
  if (array_.fortran_order) std::reverse(file_order_.begin(), file_order_.end());
  file_strides_.resize(array_.shape.size());
  std::int64_t stride = 1;
  for (auto axis = file_order_.rbegin(); axis != file_order_.rend(); ++axis) {
    file_strides_[at(*axis)] = stride;
    stride *= std::max<std::int64_t>(array_.shape[at(*axis)], 1);
  }
}

Box ArrayBoxes::whole() const { return {std::vector<std::int64_t>(array_.shape.size(), 0), array_.shape}; }

void ArrayBoxes::read(const Box& box, BoxNumbers& numbers) const {
  const std::int64_t bytes = array_.number.bytes;
  numbers.bytes.resize(static_cast<std::size_t>(box_size(box) * bytes));
  numbers.strides.assign(array_.shape.size(), 0);
  if (numbers.bytes.empty()) return;

  // Numbers that are adjacent in the file: whole inner axes, and the range on the next one.
  std::int64_t stride = 1;
  std::int64_t adjacent = 1;
  std::vector<int> outer;
  bool inner_axes_whole = true;
  for (auto turn = file_order_.rbegin(); turn != file_order_.rend(); ++turn) {
    const int axis = *turn;
    numbers.strides[at(axis)] = stride;
    stride *= box.length(axis);
    if (inner_axes_whole)
      adjacent = stride;
    else
      outer.insert(outer.begin(), axis);
    inner_axes_whole = inner_axes_whole && box.length(axis) == array_.shape[at(axis)];
  }
  std::byte* to = numbers.bytes.data();
  for_each_index(box, outer, [&](const std::vector<std::int64_t>& index) {
    const std::int64_t from =
        std::inner_product(index.begin(), index.end(), file_strides_.begin(), std::int64_t{0});
    array_.bytes->read(array_.offset + from * bytes, to, adjacent * bytes);
    to += adjacent * bytes;
  });
}

void ArrayBoxes::for_each_block(const Box& box, int row, std::int64_t limit,
                                const std::function<void(const Box&)>& use) const {
  std::int64_t inner = array_.number.bytes * (row >= 0 ? box.length(row) : 1);
  if (box_size(box) == 0) return;
  std::size_t turn = file_order_.size();
  for (; turn > 0; --turn) {
    const int axis = file_order_[turn - 1];
    if (axis == row) continue;
    if (inner * box.length(axis) > limit) break;
    inner *= box.length(axis);
  }
  if (turn == 0) return use(box);
  const int split = file_order_[turn - 1];
  const std::int64_t step = std::max<std::int64_t>(1, limit / inner);
  std::vector<int> outer;
  for (std::size_t i = 0; i + 1 < turn; ++i)
    if (file_order_[i] != row) outer.push_back(file_order_[i]);
  for_each_index(box, outer, [&](const std::vector<std::int64_t>& index) {
    Box block = box;
    for (const int axis : outer) {
      block.begin[at(axis)] = index[at(axis)];
      block.end[at(axis)] = index[at(axis)] + 1;
    }
    for (std::int64_t first = box.begin[at(split)]; first < box.end[at(split)]; first += step) {
      block.begin[at(split)] = first;
      block.end[at(split)] = std::min(first + step, box.end[at(split)]);
      use(block);
    }
  });
}

namespace {

void cover(Box box, const std::vector<int>& axes, std::size_t level, std::int64_t begin, std::int64_t end,
           std::vector<Box>& boxes) {
  if (begin >= end) return;
  if (level == axes.size()) {
    boxes.push_back(std::move(box));
    return;
  }
  std::int64_t inner = 1;
  for (std::size_t i = level + 1; i < axes.size(); ++i) inner *= box.length(axes[i]);
  const std::size_t axis = at(axes[level]);
  const auto with_range = [&](std::int64_t from, std::int64_t to) {
    Box part = box;
    part.end[axis] = box.begin[axis] + to;
    part.begin[axis] = box.begin[axis] + from;
    return part;
  };
  std::int64_t first = begin / inner;
  const std::int64_t last = end / inner;
  if (first == last) {
    cover(with_range(first, first + 1), axes, level + 1, begin % inner, end % inner, boxes);
    return;
  }
  if (begin % inner != 0) {
    cover(with_range(first, first + 1), axes, level + 1, begin % inner, inner, boxes);
    ++first;
  }
  if (first < last) boxes.push_back(with_range(first, last));
  cover(with_range(last, last + 1), axes, level + 1, 0, end % inner, boxes);
}

}  // namespace

std::vector<Box> boxes_of_range(const Box& box, const std::vector<int>& axes, std::int64_t begin,
                                std::int64_t end) {
  std::vector<Box> boxes;
  cover(box, axes, 0, begin, end, boxes);
  return boxes;
}

}  // namespace dropless::traces
