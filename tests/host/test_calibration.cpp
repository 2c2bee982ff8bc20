// The fit finds parameters that made the times, states its error on the recorded figures, and refuses files
// without measurements.
#include "dropless/calibration.hpp"

#include "catch.hpp"
#include "dropless/error.hpp"
#include "temporary_folder.hpp"

using namespace dropless;

TEST_CASE("calibration: the fit finds the parameters that made the times") {
  TimeModel truth;
  truth.hardware = find_hardware("H200");
  truth.peak_fraction = 0.6;
  truth.bandwidth_fraction = 0.85;
  truth.overhead_us = 4;
  std::vector<MeasuredProduct> products;
  for (const std::int64_t rows : {1, 64, 4096, 65536})
    for (const std::int64_t width : {512, 4096}) {
      MeasuredProduct product;
      product.work = {rows, rows + 15, std::min<std::int64_t>(rows, 64)};
      product.k = product.n = width;
      product.us = product_time(truth, product.work, width, width, product.dtype).us;
      products.push_back(product);
    }
  const TimeModel fitted = fit_time_model(TimeModel{truth.hardware, 1, 1, 0, {}}, products);
  CHECK(fitted.peak_fraction == Approx(0.6).epsilon(1e-3));
  CHECK(fitted.bandwidth_fraction == Approx(0.85).epsilon(1e-3));
  CHECK(fitted.overhead_us == Approx(4).epsilon(1e-2));
}

TEST_CASE("calibration: the error that is reached on the recorded products of the H200") {
  const Calibration calibration = calibrate(DROPLESS_DATA_DIR "/benchmarks/h200.json");
  CHECK(calibration.products == 56);
  CHECK(calibration.models == 7);
  // The goal of 10 % holds on average; three parameters do not reach it for every product.
  CHECK(calibration.mean_error < 0.06);
  CHECK(calibration.worst_error < 0.18);
  CHECK(calibration.within_goal >= 45);
  CHECK(calibration.model.peak_fraction < 1);
  CHECK(calibration.model.bandwidth_fraction < 1);
  CHECK_THAT(calibration_text(calibration), Catch::Contains("Each of 7 models left out of the fit in turn"));
}

TEST_CASE("calibration: what holds no measurements is refused with its place") {
  const TemporaryFolder folder;
  const auto calibrate_text = [&](const std::string& text) {
    return calibrate(folder.write("measured.json", text));
  };
  CHECK_THROWS_AS(calibrate(folder.path("no_such_benchmark.json")), FileError);
  CHECK_THROWS_AS(calibrate_text("{"), FileError);
  CHECK_THROWS_AS(calibrate_text(R"({"gpu": "NVIDIA H200"})"), FileError);
  CHECK_THROWS_WITH(calibrate_text(R"({"gpu": "NVIDIA H200", "cases": []})"),
                    Catch::Contains("fewer than two models"));
  CHECK_THROWS_WITH(calibrate_text(R"({"gpu": "NVIDIA H200", "cases": [{"name": "a/b", "product": "up",
    "rows_per_expert": [0], "k": 1, "n": 1, "dtype": "bf16", "us": {"dropless": 1}}]})"),
                    Catch::Contains("a/b up is without rows"));
}
