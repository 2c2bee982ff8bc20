// A libFuzzer target for the row layout and the block topology: bytes choose the experts, the block, the
// widths and the ids (or counts). What cannot be built may be refused with an Error; what is built must be a
// sorted order of the assignments and a structure whose transposed view names every block once, column by
// column.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "dropless/block_topology.hpp"
#include "dropless/error.hpp"

namespace {

using namespace dropless;

/// Takes numbers off the front of the input; zeros once it is used up.
class Numbers {
 public:
  Numbers(const std::uint8_t* bytes, std::size_t size) : bytes_(bytes), size_(size) {}
  std::size_t left() const { return size_; }

  std::int64_t take(int bytes) {
    std::uint64_t value = 0;
    for (; bytes > 0 && size_ > 0; --bytes, --size_) value = value << 8 | *bytes_++;
    return static_cast<std::int64_t>(value);
  }

 private:
  const std::uint8_t* bytes_;
  std::size_t size_;
};

void expect(bool holds) {
  if (!holds) std::abort();
}

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

void check_layout(const RowLayout& layout, const std::vector<std::int64_t>& ids) {
  expect(layout.scheduled_rows % layout.block == 0 && layout.useful_rows <= layout.scheduled_rows);
  expect(layout.row_to_assignment.size() == at(layout.scheduled_rows));
  expect(layout.assignment_to_row.size() == ids.size());
  std::int64_t rows = 0, last = -1, expert = 0;
  for (std::int64_t row = 0; row < layout.scheduled_rows; ++row) {
    while (row >= layout.row_offsets[at(expert + 1)]) {
      ++expert;
      last = -1;
    }
    const std::int64_t assignment = layout.row_to_assignment[at(row)];
    if (assignment < 0) continue;
    ++rows;
    expect(assignment > last && ids[at(assignment)] == expert);
    expect(layout.assignment_to_row[at(assignment)] == row);
    last = assignment;
  }
  expect(rows == layout.useful_rows && rows + layout.unrouted == static_cast<std::int64_t>(ids.size()));
}

void check_topology(const BlockTopology& topology) {
  std::vector<bool> seen(at(topology.nonzero_blocks));
  for (std::int64_t column = 0; column < topology.block_columns; ++column)
    for (std::int32_t i = topology.offsets_transposed[at(column)];
         i < topology.offsets_transposed[at(column + 1)]; ++i) {
      const std::int32_t block = topology.block_offsets_transposed[at(i)];
      const std::int32_t row = topology.column_indices_transposed[at(i)];
      expect(!seen[at(block)] && topology.column_indices[at(block)] == column);
      expect(topology.row_indices[at(block)] == row);
      expect(topology.offsets[at(row)] <= block && block < topology.offsets[at(row + 1)]);
      seen[at(block)] = true;
    }
  expect(topology.offsets_transposed.back() == topology.nonzero_blocks);
}

void build(Numbers numbers) {
  const bool counts = numbers.take(1) % 4 == 0;
  const std::int64_t experts = numbers.take(2) % 300, block = numbers.take(1);
  std::vector<std::int64_t> widths(numbers.take(1) % 2 == 0 ? 1 : at(experts)), values;
  for (std::int64_t& width : widths) width = counts ? numbers.take(6) : numbers.take(1) * 16;
  while (numbers.left() > 0) values.push_back(counts ? numbers.take(7) : numbers.take(2) - 1);
  if (counts) {
    // What would fill the memory of the machine is for the layout to describe, not to be built.
    const RowLayout layout = row_layout_from_counts(values, block);
    const bool narrow = std::all_of(widths.begin(), widths.end(), [](auto width) { return width < 1 << 12; });
    if (layout.scheduled_rows < 1 << 20 && narrow) check_topology(block_topology(layout, widths));
    return;
  }
  const RowLayout layout = row_layout_from_ids(ArrayView<const std::int64_t>(values), experts, block);
  check_layout(layout, values);
  check_topology(block_topology(layout, widths));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  try {
    build({bytes, size});
  } catch (const Error&) {
  }
  return 0;
}
