// The smallest use of dropless from another project: lay out the rows of a routed batch in blocks and look at
// the block-sparse structure over them.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "dropless/block_topology.hpp"
#include "dropless/error.hpp"

int main() {
  // Four tokens, two experts each; -1 is a slot that was not routed.
  const std::vector<std::int32_t> expert_ids = {0, 2, 2, 1, 0, -1, 2, 0};
  const std::vector<std::int64_t> d_ff = {64};
  try {
    const dropless::RowLayout layout = dropless::row_layout_from_ids(expert_ids, /*experts=*/4, /*block=*/16);
    const dropless::BlockTopology topology = dropless::block_topology(layout, d_ff);
    std::printf("%lld useful rows, %lld scheduled, %lld non-zero blocks of %lld x %lld\n",
                static_cast<long long>(layout.useful_rows), static_cast<long long>(layout.scheduled_rows),
                static_cast<long long>(topology.nonzero_blocks), static_cast<long long>(topology.block),
                static_cast<long long>(topology.block));
  } catch (const dropless::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
