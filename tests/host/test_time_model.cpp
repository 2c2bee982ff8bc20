// The time model on numbers worked out by hand, the hardware profiles, and what is refused.
#include "dropless/time_model.hpp"

#include "catch.hpp"
#include "dropless/error.hpp"

using namespace dropless;

namespace {

/// 1 FLOP and 1 byte a nanosecond on two SMs, so that times are FLOPs and bytes over a thousand.
TimeModel unit_model() {
  TimeModel model;
  model.hardware = {"unit", 1, 1, 1, 1, 2, ""};
  return model;
}

}  // namespace

TEST_CASE("time model: bytes and FLOPs of one product") {
  // 3 experts' weights of 10 x 512 and 100 rows of 10 + 512 elements in two bytes; 4 row tiles (500 rows in
  // 128) by 2 columns of tiles are 4 full waves of 2 SMs.
  const ModelledTime time = product_time(unit_model(), {100, 500, 3}, 10, 512, ElementType::bf16);
  CHECK(time.memory_us == Approx((3 * 10 * 512 + 100 * 522) * 2 / 1e3));
  CHECK(time.compute_us == Approx(2.0 * 500 * 10 * 512 / 1e3));
  CHECK(time.us == time.compute_us);
  CHECK_FALSE(time.bound_by_memory());
}

TEST_CASE("time model: the last wave takes as long as a full one") {
  // Three active experts are three tiles on two SMs: two waves, in which one slot of four idles.
  const ModelledTime time = product_time(unit_model(), {3, 48, 3}, 10, 256, ElementType::fp32);
  CHECK(time.compute_us == Approx(2.0 * 48 * 10 * 256 * 4 / 3 / 1e3));
  CHECK(time.memory_us == Approx((3 * 10 * 256 + 3 * 266) * 4 / 1e3));
}

TEST_CASE("time model: fractions divide, the overhead is added, no rows take no time") {
  TimeModel model = unit_model();
  model.peak_fraction = 0.5;
  model.bandwidth_fraction = 0.25;
  model.overhead_us = 7;
  const BatchWork work{1, 1, 1};
  const ModelledTime time = product_time(model, work, 4, 256, ElementType::bf16);
  CHECK(time.memory_us == Approx((4 * 256 + 260) * 2 / 0.25 / 1e3));
  CHECK(time.compute_us == Approx(2.0 * 4 * 256 * 2 / 0.5 / 1e3));
  CHECK(time.us == Approx(7 + time.memory_us));
  CHECK(time.bound_by_memory());
  CHECK(product_time(model, {0, 0, 3}, 4, 256, ElementType::bf16).us == 0);
}

TEST_CASE("time model: a batch is its two forward products") {
  ModelShape shape;
  shape.d_model = 64;
  shape.d_ff = 32;
  const BatchWork work{10, 128, 2};
  const ModelledTime up = product_time(unit_model(), work, 64, 64, ElementType::bf16);
  const ModelledTime down = product_time(unit_model(), work, 32, 64, ElementType::bf16);
  const ModelledTime batch = batch_time(unit_model(), work, shape);
  CHECK(batch.us == up.us + down.us);
  CHECK(batch.memory_us == up.memory_us + down.memory_us);
  CHECK(batch.compute_us == up.compute_us + down.compute_us);
}

TEST_CASE("time model: hardware is found by name, each figure with its source") {
  CHECK(find_hardware("NVIDIA h200").bandwidth == 4800);
  CHECK(find_hardware("A100").sms == 108);
  CHECK(find_hardware("H100").peak(ElementType::bf16) == 989400);
  for (const HardwareProfile& profile : known_hardware()) {
    for (const char* figure : {"peak: ", "bandwidth: ", "sms: "})
      CHECK_THAT(profile.source, Catch::Contains(figure));
    TimeModel model;
    model.hardware = profile;
    CHECK_NOTHROW(check_time_model(model, ElementType::fp32));
  }
  CHECK_THROWS_WITH(find_hardware("K80"), Catch::Contains("one of A100, H100, H200"));
  CHECK_THROWS_WITH(check_time_model(TimeModel{}, ElementType::bf16), Catch::Contains("peak"));
}
