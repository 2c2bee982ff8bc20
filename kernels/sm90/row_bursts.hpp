// Rows fetched into L2 in bursts, ahead of the blocks that load them.
//
// Where gradients bound the time, memory is busy with writes, and each read among them makes a channel turn
// around twice: on an H200 a lone read of 64 bytes costs 12 to 23 ns of its channel where its bytes take 2.6.
// Read all at about one time, a burst of rows turns it around once. So the experts are cut into bursts in the
// order in which they are computed, and as soon as a block learns that one has begun, it fetches its share of
// the next. It learns that from the counter from which the blocks take tiles; where tiles are dealt, it knows
// of its own alone.
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless::sm90 {

/// The rows of one expert that one block fetches of a burst: first_row, first_row + row_step, ...
struct BurstShare {
  std::uint32_t position, first_row, row_step;
};

struct RowBursts {
  std::uint32_t experts;  // of a burst, at most as many as there are blocks; 0: nothing is fetched ahead

  DROPLESS_HOST_DEVICE constexpr std::uint32_t burst_of(std::uint32_t position) const {
    return position / experts;
  }

  /// What block `block` of `blocks` fetches of a burst: every row of its experts is in one share. The
  /// position may lie past the last expert.
  DROPLESS_HOST_DEVICE constexpr BurstShare share(std::uint32_t burst, std::uint32_t block,
                                                  std::uint32_t blocks) const {
    const std::uint32_t expert = block % experts;
    return {burst * experts + expert, block / experts, (blocks - 1 - expert) / experts + 1};
  }
};

/// The bursts for experts with so many bytes of rows each, in the mean. On an H200, at 30 to 64 rows an
/// expert, 2 to 4 MB a burst are best: less turns memory around more often, and of more L2 has lost a part
/// before it is wanted.
constexpr RowBursts row_bursts(std::int64_t bytes_per_expert, std::int64_t experts, std::int64_t blocks) {
  const std::int64_t wanted = 3'200'000 / (bytes_per_expert > 0 ? bytes_per_expert : 1);
  const std::int64_t most = experts < blocks ? experts : blocks, even = wanted / 2 * 2;
  const std::int64_t count = even > 2 ? even : 2;
  return {static_cast<std::uint32_t>(count < most ? count : most)};
}

}  // namespace dropless::sm90
