// The closed form of single entries, as the GPU computes it, gives the arrays of the host builder.
#include "../../kernels/block_topology_index.hpp"

#include "catch.hpp"
#include "dropless/block_topology.hpp"
#include "routing.hpp"

using namespace dropless;

TEST_CASE("block entries in closed form equal the block topology") {
  const std::int64_t block = GENERATE(16, 64, 128);
  const int experts = GENERATE(1, 4, 33);
  const std::int64_t tokens = GENERATE(0, 1, 50, 700);
  const bool ragged = GENERATE(false, true);
  const auto ids = random_expert_ids(tokens, 1, experts, 5, 2, 10);
  const ArrayView<const std::int32_t> view(ids);
  const RowLayout packed = row_layout_from_ids(view, experts),
                  blocked = row_layout_from_ids(view, experts, block);
  std::vector<std::int64_t> d_ff{3 * block};
  if (ragged) {
    d_ff.clear();
    for (int e = 0; e < experts; ++e) d_ff.push_back((e % 3 + 1) * block);
  }
  const BlockTopology expected = block_topology(blocked, d_ff);
  const std::vector<std::int64_t> widths = widths_in_blocks(d_ff, experts, block);

  std::vector<std::int32_t> row_begin{0}, column_begin{0}, begin{0}, offsets;
  for (std::size_t e = 0; e < widths.size(); ++e) {
    const auto height = static_cast<std::int32_t>(ceil_div(packed.rows_per_expert[e], block));
    const auto width = static_cast<std::int32_t>(widths[e]);
    row_begin.push_back(row_begin.back() + height);
    column_begin.push_back(column_begin.back() + width);
    begin.push_back(begin.back() + height * width);
  }
  for (const std::int64_t offset : packed.row_offsets) offsets.push_back(static_cast<std::int32_t>(offset));
  const ExpertBlocks blocks{experts, row_begin.data(), column_begin.data(), begin.data()};

  REQUIRE(begin.back() == expected.nonzero_blocks);
  for (std::int32_t q = 0; q < begin.back(); ++q) {
    const auto i = static_cast<std::size_t>(q);
    const BlockEntry entry = block_entry(blocks, q);
    REQUIRE(entry.row_index == expected.row_indices[i]);
    REQUIRE(entry.column_index == expected.column_indices[i]);
    REQUIRE(entry.column_index_transposed == expected.column_indices_transposed[i]);
    REQUIRE(entry.block_offset_transposed == expected.block_offsets_transposed[i]);
  }
  for (std::size_t r = 0; r < expected.offsets.size(); ++r)
    REQUIRE(block_row_offset(blocks, static_cast<std::int32_t>(r)) == expected.offsets[r]);
  for (std::size_t c = 0; c < expected.offsets_transposed.size(); ++c)
    REQUIRE(block_column_offset(blocks, static_cast<std::int32_t>(c)) == expected.offsets_transposed[c]);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (packed.assignment_to_row[i] >= 0)
      REQUIRE(blocked_row(blocks, offsets.data(), static_cast<std::int32_t>(block),
                          static_cast<std::int32_t>(packed.assignment_to_row[i])) ==
              blocked.assignment_to_row[i]);
  for (std::size_t r = 0; r < blocked.row_to_assignment.size(); ++r) {
    const std::int32_t row =
        packed_row(blocks, offsets.data(), static_cast<std::int32_t>(block), static_cast<std::int32_t>(r));
    REQUIRE((row < 0 ? -1 : packed.row_to_assignment[static_cast<std::size_t>(row)]) ==
            blocked.row_to_assignment[r]);
  }
}
