// Policies and the shared sums against loops written from the definitions, on random batches of every size:
// few rows, many experts, one hot expert, and counts past 32 bits.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "catch.hpp"
#include "dropless/error.hpp"
#include "dropless/policy.hpp"
#include "dropless/row_tiles.hpp"
#include "plain_report.hpp"

using namespace dropless;

namespace {

/// Random rows per expert: most experts small, some empty, some a thousand times larger.
std::vector<std::int64_t> random_rows(std::mt19937_64& random, std::int64_t scale) {
  std::vector<std::int64_t> rows(1 + random() % 300);
  for (std::int64_t& count : rows) {
    const auto kind = random() % 8;
    count = kind == 0 ? 0
                      : static_cast<std::int64_t>(
                            random() % static_cast<std::uint64_t>(kind == 1 ? scale * 100 : scale));
  }
  return rows;
}

}  // namespace

TEST_CASE("sums over experts equal plain loops, in 32 and in 64 bits") {
  std::mt19937_64 random(7);
  for (const std::int64_t scale : {3, 100, 5000, 40'000'000}) {
    for (int round = 0; round < 100; ++round) {
      const std::vector<std::int64_t> rows = random_rows(random, scale);
      const BatchRows batch(rows, 0, 0);
      CHECK(batch.rows() == std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
      CHECK(batch.largest() == *std::max_element(rows.begin(), rows.end()));
      CHECK(batch.active_experts() ==
            static_cast<std::int64_t>(rows.size()) - std::count(rows.begin(), rows.end(), 0));
      double squares = 0;
      for (const std::int64_t count : rows)
        squares += static_cast<double>(count) * static_cast<double>(count);
      CHECK(batch.sum_of_squares() == Approx(squares));
      for (const std::int64_t multiple : {1, 2, 16, 100, 128, 4096, 8192}) {
        std::int64_t rounded = 0, capped = 0;
        for (const std::int64_t count : rows) {
          rounded += (count + multiple - 1) / multiple * multiple;
          capped += std::min(count, multiple);
        }
        CHECK(batch.rounded_up(multiple) == rounded);
        CHECK(batch.rounded_up(multiple) == rounded);
        CHECK(batch.capped(multiple) == capped);
      }
    }
  }
}

TEST_CASE("flat tiles counted by expert equal the count tile by tile") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::int64_t> rows = random_rows(random, round % 2 == 0 ? 5 : 60);
    for (const std::size_t tile : {1, 7, 16, 128}) {
      CAPTURE(rows, tile);
      CHECK(make_policy("flat:" + std::to_string(tile)).cost(BatchRows(rows, 0, 0)).scheduled_rows ==
            plain_flat(rows, tile).scheduled);
    }
  }
}

TEST_CASE("every policy accounts for every row") {
  std::mt19937_64 random(13);
  for (const std::int64_t scale : {4, 300, 30'000}) {
    for (int round = 0; round < 40; ++round) {
      const std::vector<std::int64_t> rows = random_rows(random, scale);
      const std::int64_t total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
      const BatchRows batch(rows, total, 1);
      for (const std::string& name : default_policies(true)) {
        CAPTURE(name, rows);
        const PolicyCost cost = make_policy(name).cost(batch);
        CHECK(cost.kept_rows + cost.dropped_rows == total);
        CHECK(cost.scheduled_rows >= cost.kept_rows + cost.added_rows);
        CHECK(cost.launched_rows >= cost.scheduled_rows);
        CHECK(cost.added_rows >= 0);
      }
      std::int64_t tiles_of_own_kernels = 0;
      for (const std::int64_t count : rows) tiles_of_own_kernels += scheduled_rows(count, RowTileRule{});
      CHECK(make_policy("dropless").cost(batch).scheduled_rows == tiles_of_own_kernels);
    }
  }
}

TEST_CASE("batches beyond the bounds are refused") {
  const std::vector<std::int64_t> negative{3, -1};
  CHECK_THROWS_WITH(BatchRows(negative, 0, 0), "rows of expert 1 is -1; expected 0 or more");
  const std::vector<std::int64_t> huge{std::int64_t{1} << 40, 1};
  CHECK_THROWS_AS(BatchRows(huge, 0, 0), Error);
  const std::vector<std::int64_t> wide(65537, 0);
  CHECK_THROWS_AS(BatchRows(wide, 0, 0), Error);
}
