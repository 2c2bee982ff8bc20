// The counting loops: bit masks and whole rows against plain counting, over lengths, top_k and numbers of
// experts.
#include <algorithm>
#include <random>
#include <vector>

#include "catch.hpp"
#include "traces/count_rows.hpp"

using namespace dropless::traces;

TEST_CASE("bytes are counted alike with bit masks and plainly", "[trace][count]") {
  std::mt19937 random(3);
  for (const std::int64_t experts : {8, 64, 65, 128, 129, 200, 256, 300})
    for (const std::int64_t top_k : {1, 2, 3, 4, 6, 8})
      for (const std::int64_t tokens : {0, 1, 16, 31, 32, 65, 500, 4096, 4097, 9000})
        for (const bool distinct : {true, false}) {
          std::vector<std::uint8_t> ids;
          std::vector<std::int32_t> wide;
          const std::int64_t range = std::min<std::int64_t>(experts, 256);
          for (std::int64_t token = 0; token < tokens; ++token) {
            const auto first = static_cast<std::int64_t>(random());
            for (std::int64_t slot = 0; slot < top_k; ++slot)
              ids.push_back(static_cast<std::uint8_t>(
                  (distinct ? first + slot : static_cast<std::int64_t>(random())) % range));
          }
          wide.assign(ids.begin(), ids.end());
          std::vector<std::int64_t> counts(static_cast<std::size_t>(experts)), expected(counts.size());
          const RunFacts facts = count_rows(ids.data(), tokens, top_k, experts, counts.data());
          const RunFacts plain = count_rows(wide.data(), tokens, top_k, experts, expected.data());
          CAPTURE(experts, top_k, tokens, distinct);
          REQUIRE(counts == expected);
          REQUIRE(facts.duplicate_rows == plain.duplicate_rows);
          REQUIRE(facts.repeats_one == plain.repeats_one);
          REQUIRE(facts.bad_id == -1);
        }
}

TEST_CASE("an id past the experts is found where it stands", "[trace][count]") {
  for (const std::int64_t experts : {9, 64, 100, 128, 129, 255})
    for (const std::int64_t top_k : {4, 8})
      for (const std::size_t place : {0u, 63u, 511u, 4000u, 39999u})
        for (const std::int64_t id : {experts, std::int64_t{255}}) {
          std::vector<std::uint8_t> ids(40000);
          for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint8_t>(i % 8);
          ids[place] = static_cast<std::uint8_t>(id);
          std::vector<std::int64_t> counts(static_cast<std::size_t>(experts));
          CHECK(count_rows(ids.data(), 40000 / top_k, top_k, experts, counts.data()).bad_id ==
                static_cast<std::int64_t>(place));
          CHECK(count_rows(ids.data() + place / 8 * 8, 8 / top_k, top_k, experts, counts.data()).bad_id ==
                static_cast<std::int64_t>(place % 8));
        }
}

TEST_CASE("the largest byte", "[trace][count]") {
  for (const std::int64_t size : {0, 1, 63, 64, 65, 1000}) {
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size), 3);
    CHECK(largest_byte(bytes.data(), size) == (size > 0 ? 3 : 0));
    if (size == 0) continue;
    bytes.back() = 250;
    CHECK(largest_byte(bytes.data(), size) == 250);
  }
}
