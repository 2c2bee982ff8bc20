// bf16 and fp16 bit patterns: every pattern survives the way through float, and rounding is to nearest even.
#include "dropless/float16.hpp"

#include <limits>

#include "catch.hpp"

using namespace dropless;

TEST_CASE("every 16-bit pattern survives the way through float", "[float16]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16})
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const float value = float_from_pattern(type, static_cast<std::uint16_t>(pattern));
      const std::uint16_t back = pattern_from_float(type, value);
      if (value != value) {
        const float again = float_from_pattern(type, back);
        REQUIRE(again != again);
      } else {
        REQUIRE(back == pattern);
      }
    }
}

TEST_CASE("rounding to 16 bits goes to the nearest neighbour, ties to even", "[float16]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16}) {
    const std::uint32_t infinity = type == ElementType::bf16 ? 0x7f80 : 0x7c00;
    for (std::uint32_t pattern = 0; pattern + 1 < infinity; ++pattern) {
      const float low = float_from_pattern(type, static_cast<std::uint16_t>(pattern));
      const float high = float_from_pattern(type, static_cast<std::uint16_t>(pattern + 1));
      const float middle = low + (high - low) / 2;
      REQUIRE(pattern_from_float(type, middle) == pattern + pattern % 2);
      if (middle <= std::numeric_limits<float>::min()) continue;
      REQUIRE(pattern_from_float(type, std::nextafter(middle, low)) == pattern);
      REQUIRE(pattern_from_float(type, std::nextafter(middle, high)) == pattern + 1);
      REQUIRE(pattern_from_float(type, -std::nextafter(middle, high)) == (0x8000 | (pattern + 1)));
    }
  }
}

TEST_CASE("known 16-bit patterns", "[float16]") {
  CHECK(bf16_from_float(1.0F) == 0x3f80);
  CHECK(bf16_from_float(-2.0F) == 0xc000);
  CHECK(fp16_from_float(1.0F) == 0x3c00);
  CHECK(fp16_from_float(65504.0F) == 0x7bff);
  CHECK(fp16_from_float(65519.99F) == 0x7bff);
  CHECK(fp16_from_float(65520.0F) == 0x7c00);
  CHECK(fp16_from_float(-1e9F) == 0xfc00);
  CHECK(fp16_from_float(5.9604645e-8F) == 0x0001);
  CHECK(fp16_from_float(1e-9F) == 0x0000);
  CHECK(fp16_from_float(-0.0F) == 0x8000);
}
