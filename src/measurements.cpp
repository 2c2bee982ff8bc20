// Reading the measured products of a benchmark's JSON file.
#include "argument_checks.hpp"
#include "dropless/calibration.hpp"
#include "dropless/row_tiles.hpp"
#include "json_file.hpp"

namespace dropless {
namespace {

MeasuredProduct measured_product(const JsonValue& entry) {
  MeasuredProduct product;
  const std::string name = entry.at("name").text();
  product.name = name + ' ' + entry.at("product").text();
  product.model = name.substr(0, name.find('/'));
  const JsonValue rows_per_expert = entry.at("rows_per_expert");
  for (const JsonValue& expert : rows_per_expert.elements()) {
    const std::int64_t rows = expert.whole_number(0, int32_max);
    product.work.rows += rows;
    product.work.scheduled_rows += scheduled_rows(rows, RowTileRule{});
    product.work.active_experts += rows > 0;
  }
  if (product.work.rows == 0) rows_per_expert.refuse("has no rows");
  product.k = entry.at("k").whole_number(1, int32_max);
  product.n = entry.at("n").whole_number(1, int32_max);
  product.dtype = entry.at("dtype").named(element_from_name);
  product.us = entry.at("us").at("dropless").number_above_zero();
  return product;
}

/// Any JSON file may be named by mistake, benchmarks of other things too: what lacks these keys is one of
/// them.
void check_kind(const JsonValue& file) {
  try {
    file.at("gpu").text();
    for (const JsonValue& entry : file.at("cases").elements()) {
      entry.at("name").text();
      entry.at("product").text();
    }
  } catch (const FileError& error) {
    throw FileError(
        error.path(), error.place(),
        error.reason() + "; expected a file of measured products, such as data/benchmarks/h200.json");
  }
}

}  // namespace

Measurements read_measurements(const std::string& path) {
  const nlohmann::json document = read_json_file(path);
  const JsonValue file(path, "", document);
  check_kind(file);
  Measurements measurements;
  measurements.gpu = file.at("gpu").text();
  for (const JsonValue& entry : file.at("cases").elements())
    if (const std::string product = entry.at("product").text(); product == "up" || product == "down")
      measurements.products.push_back(measured_product(entry));
  return measurements;
}

}  // namespace dropless
