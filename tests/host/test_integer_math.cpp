// Shared integer arithmetic at its edges.
#include "catch.hpp"
#include "dropless/integer_math.hpp"

using namespace dropless;

namespace {
constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
}

TEST_CASE("integer math: ceil_div and round_up") {
  for (std::int64_t divisor = 1; divisor <= 20; ++divisor) {
    for (std::int64_t value = 0; value <= 100; ++value) {
      const std::int64_t quotient = ceil_div(value, divisor);
      REQUIRE(quotient * divisor >= value);
      REQUIRE((quotient - 1) * divisor < value);
      REQUIRE(round_up(value, divisor) == quotient * divisor);
    }
  }
  CHECK(ceil_div(most, 1) == most);
  CHECK(ceil_div(most, 2) == most / 2 + 1);
  CHECK(ceil_div(most, most) == 1);
  CHECK(round_up(most, most) == most);
}

TEST_CASE("integer math: products and sums that do not fit are refused by name") {
  CHECK(checked_product(0, most, "rows") == 0);
  CHECK(checked_product(most, 0, "rows") == 0);
  CHECK(checked_product(most, 1, "rows") == most);
  CHECK(checked_product(3037000499, 3037000499, "rows") == 9223372030926249001);
  CHECK_THROWS_WITH(checked_product(3037000500, 3037000500, "rows"),
                    Catch::Contains("rows is 3037000500 * 3037000500"));
  CHECK_THROWS_AS(checked_product(most, 2, "rows"), Error);
  CHECK_THROWS_AS(checked_product(2, most, "rows"), Error);
  CHECK(checked_sum(most, 0, "bytes") == most);
  CHECK(checked_sum(most - 1, 1, "bytes") == most);
  CHECK_THROWS_WITH(checked_sum(most, 1, "bytes"), Catch::Contains("bytes is 9223372036854775807 + 1"));
}

TEST_CASE("integer math: narrowing to int32") {
  CHECK(checked_int32(2147483647, "blocks") == 2147483647);
  CHECK(checked_int32(-2147483648LL, "blocks") == std::numeric_limits<std::int32_t>::min());
  CHECK_THROWS_WITH(checked_int32(2147483648, "blocks"), Catch::Contains("blocks is 2147483648"));
  CHECK_THROWS_AS(checked_int32(-2147483649LL, "blocks"), Error);
}
