// Counting sort of assignments into expert order, packed or blocked.
#include "dropless/row_layout.hpp"

#include "dropless/integer_math.hpp"

namespace dropless {
namespace {

void check_shape(std::int64_t experts, std::int64_t block) {
  if (experts < 1) throw Error("experts", std::to_string(experts), "at least 1");
  if (block < 1) throw Error("block", std::to_string(block), "at least 1");
}

/// Refuses more 64-bit entries than any memory addresses.
void checked_array_size(std::int64_t entries, const char* argument) {
  checked_product(entries, sizeof(std::int64_t), argument);
}

void finish_offsets(RowLayout& layout) {
  layout.row_offsets.assign(1, 0);
  layout.row_offsets.reserve(static_cast<std::size_t>(layout.experts) + 1);
  for (const std::int64_t rows : layout.rows_per_expert) {
    const std::int64_t blocks = ceil_div(rows, layout.block);
    const std::int64_t padded =
        checked_product(blocks, layout.block, "rows_per_expert rounded up to the block");
    layout.useful_rows = checked_sum(layout.useful_rows, rows, "sum of rows_per_expert");
    layout.row_offsets.push_back(checked_sum(layout.row_offsets.back(), padded, "scheduled rows"));
  }
  layout.scheduled_rows = layout.row_offsets.back();
}

template <class Id>
RowLayout from_ids(ArrayView<const Id> expert_ids, std::int64_t experts, std::int64_t block) {
  check_shape(experts, block);
  checked_array_size(experts, "experts");
  RowLayout layout;
  layout.experts = experts;
  layout.block = block;
  layout.rows_per_expert.assign(static_cast<std::size_t>(experts), 0);
  for (std::size_t i = 0; i < expert_ids.size(); ++i) {
    const Id id = expert_ids[i];
    if (id >= experts)
      throw Error("expert_ids[" + std::to_string(i) + "]", std::to_string(id),
                  "an id below experts = " + std::to_string(experts));
    if (id < 0)
      ++layout.unrouted;
    else
      ++layout.rows_per_expert[static_cast<std::size_t>(id)];
  }
  finish_offsets(layout);
  std::vector<std::int64_t> next(layout.row_offsets.begin(), layout.row_offsets.end() - 1);
  checked_array_size(layout.scheduled_rows, "scheduled rows");
  layout.row_to_assignment.assign(static_cast<std::size_t>(layout.scheduled_rows), -1);
  layout.assignment_to_row.assign(expert_ids.size(), -1);
  for (std::size_t i = 0; i < expert_ids.size(); ++i) {
    if (expert_ids[i] < 0) continue;
    const std::int64_t row = next[static_cast<std::size_t>(expert_ids[i])]++;
    layout.row_to_assignment[static_cast<std::size_t>(row)] = static_cast<std::int64_t>(i);
    layout.assignment_to_row[i] = row;
  }
  return layout;
}

}  // namespace

RowLayout row_layout_from_ids(ArrayView<const std::int32_t> expert_ids, std::int64_t experts,
                              std::int64_t block) {
  return from_ids(expert_ids, experts, block);
}

RowLayout row_layout_from_ids(ArrayView<const std::int64_t> expert_ids, std::int64_t experts,
                              std::int64_t block) {
  return from_ids(expert_ids, experts, block);
}

RowLayout row_layout_from_counts(ArrayView<const std::int64_t> rows_per_expert, std::int64_t block) {
  check_shape(static_cast<std::int64_t>(rows_per_expert.size()), block);
  RowLayout layout;
  layout.experts = static_cast<std::int64_t>(rows_per_expert.size());
  layout.block = block;
  layout.rows_per_expert.assign(rows_per_expert.begin(), rows_per_expert.end());
  for (std::size_t e = 0; e < rows_per_expert.size(); ++e)
    if (rows_per_expert[e] < 0)
      throw Error("rows_per_expert[" + std::to_string(e) + "]", std::to_string(rows_per_expert[e]),
                  "a count of 0 or more");
  finish_offsets(layout);
  return layout;
}

}  // namespace dropless
