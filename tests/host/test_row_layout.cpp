// Row layouts from ids and from counts, against a stable sort and against the worked example.
#include <algorithm>
#include <limits>
#include <numeric>

#include "catch.hpp"
#include "dropless/error.hpp"
#include "dropless/integer_math.hpp"
#include "dropless/row_layout.hpp"
#include "routing.hpp"

using namespace dropless;

namespace {

using Ids = std::vector<std::int32_t>;
using Counts = std::vector<std::int64_t>;

/// The plain construction: kept positions in a stable sort by expert, then placed expert by expert.
void check_against_sort(const Ids& ids, std::int64_t experts, std::int64_t block) {
  const RowLayout layout = row_layout_from_ids(ids, experts, block);
  Counts order;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) order.push_back(static_cast<std::int64_t>(i));
  const auto expert_of = [&](std::int64_t i) { return ids[static_cast<std::size_t>(i)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return expert_of(a) < expert_of(b); });

  Counts row_to_assignment, assignment_to_row(ids.size(), -1), rows_per_expert, row_offsets = {0};
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    std::int64_t rows = 0;
    for (const std::int64_t assignment : order) {
      if (expert_of(assignment) != expert) continue;
      assignment_to_row[static_cast<std::size_t>(assignment)] =
          static_cast<std::int64_t>(row_to_assignment.size());
      row_to_assignment.push_back(assignment);
      ++rows;
    }
    rows_per_expert.push_back(rows);
    while (static_cast<std::int64_t>(row_to_assignment.size()) % block != 0) row_to_assignment.push_back(-1);
    row_offsets.push_back(static_cast<std::int64_t>(row_to_assignment.size()));
  }
  REQUIRE(layout.rows_per_expert == rows_per_expert);
  REQUIRE(layout.row_offsets == row_offsets);
  REQUIRE(layout.row_to_assignment == row_to_assignment);
  REQUIRE(layout.assignment_to_row == assignment_to_row);
  CHECK(layout.experts == experts);
  CHECK(layout.block == block);
  CHECK(layout.useful_rows == static_cast<std::int64_t>(order.size()));
  CHECK(layout.unrouted == static_cast<std::int64_t>(ids.size() - order.size()));
  CHECK(layout.scheduled_rows == row_offsets.back());

  const RowLayout counted = row_layout_from_counts(rows_per_expert, block);
  CHECK(counted.row_offsets == row_offsets);
  CHECK(counted.useful_rows == layout.useful_rows);
  CHECK(counted.row_to_assignment.empty());

  const std::vector<std::int64_t> wide(ids.begin(), ids.end());
  CHECK(row_layout_from_ids(wide, experts, block).row_to_assignment == row_to_assignment);
}

}  // namespace

TEST_CASE("row layout: the worked example") {
  const Counts rows = {3, 0, 130, 128};
  const RowLayout blocked = row_layout_from_ids(shuffled_expert_ids(rows, 1), 4, 128);
  CHECK(blocked.rows_per_expert == rows);
  CHECK(blocked.row_offsets == Counts{0, 128, 128, 384, 512});
  CHECK(blocked.useful_rows == 261);
  CHECK(blocked.scheduled_rows == 512);
  const RowLayout packed = row_layout_from_ids(shuffled_expert_ids(rows, 1), 4);
  CHECK(packed.row_offsets == Counts{0, 3, 3, 133, 261});
  CHECK(packed.scheduled_rows == 261);
  // Rows scheduled at blocks of 16, 32, 64, 128 and 256.
  const Counts expected = {288, 320, 384, 512, 768};
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(row_layout_from_counts(rows, std::int64_t{16} << i).scheduled_rows == expected[i]);
}

TEST_CASE("row layout: equals a stable sort over random shapes") {
  std::mt19937 random(7);
  for (int round = 0; round < 120; ++round) {
    const int experts = 1 + static_cast<int>(random() % 40);
    const int top_k = 1 + static_cast<int>(random() % static_cast<unsigned>(std::min(experts, 6)));
    const std::int64_t tokens = random() % 200;
    const auto seed = static_cast<std::uint32_t>(random());
    const std::int64_t blocks[] = {1, 2, 3, 16, 32, 64, 100, 128};
    check_against_sort(random_expert_ids(tokens, top_k, experts, seed, static_cast<int>(random() % 3),
                                         static_cast<int>(random() % 4) * 20),
                       experts, blocks[random() % 8]);
  }
}

TEST_CASE("row layout: zero tokens, and tokens with every id below zero") {
  check_against_sort({}, 4, 16);
  check_against_sort(Ids(24, -1), 4, 16);
  check_against_sort(Ids(24, std::numeric_limits<std::int32_t>::min()), 1, 1);
}

TEST_CASE("row layout: graph padding tokens leave the counts as they are") {
  Ids ids = random_expert_ids(100, 4, 16, 3);
  const Counts rows = row_layout_from_ids(ids, 16).rows_per_expert;
  ids.resize(ids.size() + 28 * 4, -1);
  const RowLayout padded = row_layout_from_ids(ids, 16);
  CHECK(padded.rows_per_expert == rows);
  CHECK(padded.unrouted == 28 * 4);
}

TEST_CASE("row layout: shapes that users of other libraries reported") {
  // One decoded token over 128 experts schedules 64 rows for each of its 8.
  check_against_sort(random_expert_ids(1, 8, 128, 5), 128, 64);
  CHECK(row_layout_from_ids(random_expert_ids(1, 8, 128, 5), 128, 64).scheduled_rows == 512);
  check_against_sort(shuffled_expert_ids({0, 128, 0, 64}, 5), 4, 128);
  check_against_sort(shuffled_expert_ids({1, 7, 0, 9}, 5), 4, 1);
  check_against_sort(random_expert_ids(4096, 8, 48, 5), 48, 128);
  check_against_sort(random_expert_ids(4097, 16, 128, 5), 128, 16);
  check_against_sort(shuffled_expert_ids({40000}, 5), 1, 128);
}

TEST_CASE("row layout: counts past 2^31 are computed in 64 bits") {
  const std::int64_t many = (std::int64_t{1} << 33) + 1;
  const RowLayout layout = row_layout_from_counts(Counts{many, 0, many}, 128);
  CHECK(layout.useful_rows == 2 * many);
  CHECK(layout.row_offsets == Counts{0, many + 127, many + 127, 2 * (many + 127)});
}

TEST_CASE("row layout: refusals name the argument, its value and what was expected") {
  try {
    row_layout_from_ids(Ids{0, 1, 3, 9}, 3);
    FAIL("an id past the experts was taken");
  } catch (const Error& error) {
    CHECK(error.argument() == "expert_ids[2]");
    CHECK(error.value() == "3");
    CHECK_THAT(error.expectation(), Catch::Contains("3"));
  }
  CHECK_THROWS_WITH(row_layout_from_ids(std::vector<std::int64_t>{std::int64_t{1} << 32}, 3),
                    Catch::Contains("expert_ids[0]") && Catch::Contains("4294967296"));
  CHECK_THROWS_WITH(row_layout_from_counts(Counts{4, -1}),
                    Catch::Contains("rows_per_expert[1]") && Catch::Contains("-1"));
  CHECK_THROWS_WITH(row_layout_from_ids(Ids{0}, 0), Catch::Contains("experts"));
  CHECK_THROWS_WITH(row_layout_from_ids(Ids{0}, -2), Catch::Contains("-2"));
  CHECK_THROWS_WITH(row_layout_from_counts(Counts{}), Catch::Contains("experts"));
  CHECK_THROWS_WITH(row_layout_from_counts(Counts{1}, 0), Catch::Contains("block"));
  CHECK_THROWS_WITH(row_layout_from_counts(Counts{1}, -16), Catch::Contains("-16"));
}

TEST_CASE("row layout: sizes past 2^63 are refused") {
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  CHECK_THROWS_AS(row_layout_from_counts(Counts{most, 1}), Error);
  CHECK_THROWS_AS(row_layout_from_counts(Counts{most}, 2), Error);
  CHECK_THROWS_AS(row_layout_from_counts(Counts{1, 1}, most), Error);
  CHECK_THROWS_AS(row_layout_from_ids(Ids{0}, 1, most), Error);
  CHECK_THROWS_AS(row_layout_from_ids(Ids{0}, most), Error);
}
