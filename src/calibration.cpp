// The fit to measured products, and its check on models left out.
#include "dropless/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <set>

#include "dropless/error.hpp"

namespace dropless {
namespace {

constexpr double smallest_step = 1e-5;

double time_ratio(const TimeModel& model, const MeasuredProduct& product) {
  return product_time(model, product.work, product.k, product.n, product.dtype).us / product.us;
}

double squared_error(const TimeModel& model, const std::vector<MeasuredProduct>& products) {
  double sum = 0;
  for (const MeasuredProduct& product : products) sum += std::pow(std::log(time_ratio(model, product)), 2);
  return sum;
}

/// Steps `model` along one parameter at a time while that lowers its squared error, which it returns.
double descend(TimeModel& model, const std::vector<MeasuredProduct>& products) {
  double least = squared_error(model, products);
  for (double step = 0.3; step > smallest_step;) {
    bool better = false;
    for (double TimeModel::*parameter :
         {&TimeModel::peak_fraction, &TimeModel::bandwidth_fraction, &TimeModel::overhead_us})
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        TimeModel candidate = model;
        candidate.*parameter *= factor;
        const double error = squared_error(candidate, products);
        if (error >= least) continue;
        model = candidate;
        least = error;
        better = true;
      }
    if (!better) step /= 2;
  }
  return least;
}

}  // namespace

TimeModel fit_time_model(TimeModel model, const std::vector<MeasuredProduct>& products) {
  double least = std::numeric_limits<double>::infinity();
  for (const double overhead_us : {0.3, 1.0, 3.0, 10.0}) {
    TimeModel descended = model;
    descended.peak_fraction = descended.bandwidth_fraction = 0.7;
    descended.overhead_us = overhead_us;
    const double error = descend(descended, products);
    if (error >= least) continue;
    least = error;
    model = descended;
  }
  return model;
}

Calibration calibrate(const std::string& path) {
  const Measurements measurements = read_measurements(path);
  std::set<std::string> models;
  for (const MeasuredProduct& product : measurements.products) models.insert(product.model);
  if (models.size() < 2)
    throw FileError(path, "cases", "holds forward products of fewer than two models: nothing to leave out");
  Calibration result;
  result.model.hardware = find_hardware(measurements.gpu);
  result.products = static_cast<std::int64_t>(measurements.products.size());
  result.models = static_cast<std::int64_t>(models.size());
  for (const std::string& left_out : models) {
    std::vector<MeasuredProduct> others;
    std::copy_if(measurements.products.begin(), measurements.products.end(), std::back_inserter(others),
                 [&](const MeasuredProduct& product) { return product.model != left_out; });
    const TimeModel fitted = fit_time_model(result.model, others);
    for (const MeasuredProduct& product : measurements.products) {
      if (product.model != left_out) continue;
      const double error = std::abs(time_ratio(fitted, product) - 1);
      result.mean_error += error / static_cast<double>(result.products);
      result.within_goal += error <= calibration_goal;
      if (error <= result.worst_error) continue;
      result.worst_error = error;
      result.worst_product = product.name;
    }
  }
  result.model = fit_time_model(result.model, measurements.products);
  result.model.fitted_on = result.model.hardware.name;
  result.model.fitted_to =
      fmt::format("{} forward products measured on {}", result.products, measurements.gpu);
  return result;
}

std::string calibration_text(const Calibration& calibration) {
  const TimeModel& model = calibration.model;
  return fmt::format(
      "Least squares on log time over {}: {:.1f} % of the peak, {:.1f} % of the bandwidth, {:.2f} us a "
      "product.\n"
      "Each of {} models left out of the fit in turn: error {:.1f} % on average, {:.1f} % at worst ({}).\n"
      "{} of {} products lie within the goal of {:.0f} %{}.\n",
      model.fitted_to, 100 * model.peak_fraction, 100 * model.bandwidth_fraction, model.overhead_us,
      calibration.models, 100 * calibration.mean_error, 100 * calibration.worst_error,
      calibration.worst_product, calibration.within_goal, calibration.products, 100 * calibration_goal,
      calibration.within_goal < calibration.products ? ": three parameters do not reach it for all" : "");
}

}  // namespace dropless
