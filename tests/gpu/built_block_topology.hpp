// A blocked topology built on the GPU against the host builder's arrays, number for number.
#pragma once
#include <algorithm>
#include <vector>

#include "catch.hpp"
#include "device_buffer.hpp"
#include "dropless/block_topology.hpp"
#include "dropless/device_block_topology.hpp"
#include "dropless/row_layout.hpp"

namespace dropless::test {

template <class Value>
void require_array(const std::int32_t* device, const std::vector<Value>& expected) {
  const std::vector<std::int32_t> values = download(device, expected.size());
  const bool equal = std::equal(values.begin(), values.end(), expected.begin());
  REQUIRE(equal);
}

inline void require_host_result(const DeviceBlockTopology& built, const std::vector<std::int32_t>& ids,
                                const std::vector<std::int64_t>& d_ff) {
  const RowLayout layout =
      row_layout_from_ids(ArrayView<const std::int32_t>(ids), built.experts, built.block);
  const BlockTopology expected = block_topology(layout, d_ff);
  const BlockCounts counts = download(built.counts, 1)[0];
  REQUIRE(counts.block_rows == expected.block_rows);
  REQUIRE(counts.nonzero_blocks == expected.nonzero_blocks);
  REQUIRE(built.block_columns == expected.block_columns);
  REQUIRE(built.block_rows_bound >= expected.block_rows);
  REQUIRE(built.nonzero_blocks_bound >= expected.nonzero_blocks);
  require_array(built.row_offsets, layout.row_offsets);
  require_array(built.row_to_assignment, layout.row_to_assignment);
  require_array(built.assignment_to_row, layout.assignment_to_row);
  require_array(built.offsets, expected.offsets);
  require_array(built.row_indices, expected.row_indices);
  require_array(built.column_indices, expected.column_indices);
  require_array(built.offsets_transposed, expected.offsets_transposed);
  require_array(built.column_indices_transposed, expected.column_indices_transposed);
  require_array(built.block_offsets_transposed, expected.block_offsets_transposed);
}

}  // namespace dropless::test
