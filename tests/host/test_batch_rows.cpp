// The sums over a batch's experts, however many experts and rows there are, against plain loops.
#include "dropless/batch_rows.hpp"

#include <algorithm>
#include <random>

#include "catch.hpp"
#include "plain_report.hpp"

using namespace dropless;

TEST_CASE("batch rows: sums are those of plain loops", "[policy]") {
  std::mt19937 random(5);
  for (const auto experts : std::initializer_list<std::size_t>{0, 1, 7, 8, 9, 64, 247, 248, 249, 300, 4096})
    for (const std::int64_t most : {0, 1, 7, 8, 30, 31, 32, 33, 5000}) {
      std::vector<std::int64_t> rows(experts);
      for (std::int64_t& count : rows) count = static_cast<std::int64_t>(random()) % (most + 1);
      if (experts > 0) rows[experts / 2] = most;
      CAPTURE(experts, most);
      // Tokens decide how the sums are formed, never what they are.
      for (const std::int64_t tokens : {std::int64_t{0}, plain_sum(rows), std::int64_t{1} << 30}) {
        const BatchRows batch(rows, tokens, 1);
        CHECK(batch.rows() == plain_sum(rows));
        CHECK(batch.largest() == (experts > 0 ? most : 0));
        CHECK(batch.active_experts() ==
              std::count_if(rows.begin(), rows.end(), [](std::int64_t count) { return count > 0; }));
        double squares = 0;
        for (const std::int64_t count : rows) squares += static_cast<double>(count * count);
        CHECK(batch.sum_of_squares() == squares);
        for (const std::int64_t multiple : {1, 3, 8, 16, 24, 32, 64, 128, 256, 4096, 8192})
          CHECK(batch.rounded_up(multiple) == plain_rounded(rows, multiple));
        for (const std::int64_t capacity : {0, 1, 2, 8, 31, 32, 100, 6000})
          CHECK(batch.capped(capacity) == plain_capacity(rows, capacity, false).kept);
        for (std::size_t t = 0; t < batch.experts_with().size(); ++t)
          CHECK(batch.experts_with()[t] ==
                std::count(rows.begin(), rows.end(), static_cast<std::int64_t>(t)));
        if (!batch.experts_with().empty())
          CHECK(batch.experts_with().size() > static_cast<std::size_t>(batch.largest()));
      }
    }
}
