// Fits the time model's three parameters to products that this library's benchmark measured, and says how far
// off it is on models that the fit did not see.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/time_model.hpp"

namespace dropless {

/// One forward product of this library as it was measured.
struct MeasuredProduct {
  std::string name;   ///< "model/tokens/router product"
  std::string model;  ///< the part of the name before the first '/'
  BatchWork work;
  std::int64_t k = 0, n = 0;
  ElementType dtype = ElementType::bf16;
  double us = 0;
};

/// What a benchmark's JSON file (data/benchmarks) says of one GPU.
struct Measurements {
  std::string gpu;
  std::vector<MeasuredProduct> products;
};

/// Reads the forward (up and down) products. Throws FileError naming file, place and reason.
Measurements read_measurements(const std::string& path);

/// `model` with the parameters of least squares on log time: the sum over products of
/// log(modelled / measured)^2 is made least by steps along one parameter at a time, halved until 1e-5,
/// from four overheads at the start: the sum has kinks at which one descent can stop. `products` is not
/// empty.
TimeModel fit_time_model(TimeModel model, const std::vector<MeasuredProduct>& products);

struct Calibration {
  TimeModel model;  ///< fitted to all products
  std::int64_t products = 0, models = 0;
  /// Relative errors |modelled / measured - 1| of each product by a fit to all other models' products.
  double mean_error = 0, worst_error = 0;
  std::string worst_product;
  std::int64_t within_goal = 0;  ///< products whose error is at most calibration_goal
};

constexpr double calibration_goal = 0.1;

/// Fits the model of the file's own GPU, which must be a known one. Throws FileError where the file holds
/// fewer than two models, besides what read_measurements() and find_hardware() throw.
Calibration calibrate(const std::string& path);

/// The parameters, how they were found, and the error on models left out, in three lines.
std::string calibration_text(const Calibration& calibration);

}  // namespace dropless
