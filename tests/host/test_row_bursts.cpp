// Bursts of rows: every row of every expert is in one block's share of one burst, and a burst is neither so
// small that memory turns around for little nor larger than the blocks can share out.
#include "sm90/row_bursts.hpp"

#include <vector>

#include "catch.hpp"

using dropless::sm90::BurstShare;
using dropless::sm90::row_bursts;
using dropless::sm90::RowBursts;

TEST_CASE("every row of a burst is fetched by one block") {
  for (const std::uint32_t experts : {1u, 2u, 7u, 64u, 65u})
    for (const std::uint32_t blocks : {1u, 2u, 5u, 132u})
      for (const std::uint32_t of_a_burst : {1u, 2u, 4u, 5u, 12u, 100u}) {
        if (of_a_burst > blocks) continue;
        const RowBursts bursts{of_a_burst};
        std::vector<std::vector<int>> times(experts);
        for (std::uint32_t position = 0; position < experts; ++position)
          times[position].resize(position % 40);
        for (std::uint32_t burst = 0; burst <= bursts.burst_of(experts - 1); ++burst)
          for (std::uint32_t block = 0; block < blocks; ++block) {
            const BurstShare share = bursts.share(burst, block, blocks);
            REQUIRE(bursts.burst_of(share.position) == burst);
            if (share.position >= experts) continue;
            for (std::size_t row = share.first_row; row < times[share.position].size(); row += share.row_step)
              ++times[share.position][row];
          }
        for (const std::vector<int>& rows : times)
          for (const int count : rows) REQUIRE(count == 1);
      }
}

TEST_CASE("a burst is some 3 MB of rows in the mean, of an even number of experts") {
  CHECK(row_bursts(32 * 2 * (2048 + 1536), 128, 132).experts == 12);
  CHECK(row_bursts(64 * 2 * (1024 + 2048), 64, 132).experts == 8);
  CHECK(row_bursts(64 * 2 * (7168 + 4096), 32, 132).experts == 2);
  CHECK(row_bursts(1ll << 40, 32, 132).experts == 2);
}

TEST_CASE("a burst has no more experts than there are, and no more than there are blocks") {
  CHECK(row_bursts(0, 64, 132).experts == 64);
  CHECK(row_bursts(0, 300, 132).experts == 132);
  CHECK(row_bursts(1 << 20, 64, 1).experts == 1);
  CHECK(row_bursts(1 << 20, 1, 132).experts == 1);
}
