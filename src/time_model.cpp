// The two bounds of a product, and the known hardware, parsed once from the string that the build made of
// data/hardware.json.
#include "dropless/time_model.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>

#include "built_in_data.hpp"
#include "dropless/error.hpp"
#include "dropless/integer_math.hpp"
#include "dropless/row_tiles.hpp"

namespace dropless {
namespace {

constexpr std::int64_t tile_rows = RowTileRule{}.tile_rows;

std::vector<HardwareProfile> parse_known_hardware() {
  std::vector<HardwareProfile> profiles;
  for (const nlohmann::json& entry : nlohmann::json::parse(hardware_json)) {
    HardwareProfile profile;
    profile.name = entry.at("name");
    const auto& peak = entry.at("peak");
    profile.bf16_peak = peak.at("bf16");
    profile.fp16_peak = peak.at("fp16");
    profile.fp32_peak = peak.at("fp32");
    profile.bandwidth = entry.at("bandwidth");
    profile.sms = entry.at("sms");
    for (const auto& [figure, source] : entry.at("sources").items())
      profile.source += (profile.source.empty() ? "" : "; ") + figure + ": " + source.get<std::string>();
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace

const std::vector<HardwareProfile>& known_hardware() {
  static const std::vector<HardwareProfile> profiles = parse_known_hardware();
  return profiles;
}

HardwareProfile find_hardware(const std::string& name) {
  std::string model = name.substr(name.find_last_of(' ') + 1), known;
  for (char& letter : model) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  for (const HardwareProfile& profile : known_hardware()) {
    if (profile.name == model) return profile;
    known += (known.empty() ? "" : ", ") + profile.name;
  }
  throw Error("hardware", "'" + name + "'", "one of " + known + ", or --peak, --bandwidth and --sms");
}

void check_time_model(const TimeModel& model, ElementType dtype) {
  for (const auto& [name, value] : {std::pair{"peak", model.hardware.peak(dtype)},
                                    {"bandwidth", model.hardware.bandwidth},
                                    {"sms", static_cast<double>(model.hardware.sms)},
                                    {"peak_fraction", model.peak_fraction},
                                    {"bandwidth_fraction", model.bandwidth_fraction}})
    if (!(value > 0) || !std::isfinite(value)) throw Error(name, std::to_string(value), "more than 0");
  if (!(model.overhead_us >= 0) || !std::isfinite(model.overhead_us))
    throw Error("overhead_us", std::to_string(model.overhead_us), "0 or more");
}

ModelledTime product_time(const TimeModel& model, const BatchWork& work, std::int64_t k, std::int64_t n,
                          ElementType dtype) {
  if (work.scheduled_rows == 0) return {};
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  const std::int64_t active = std::min(work.active_experts, work.scheduled_rows);
  const double weights = real(active) * real(k) * real(n), elements_a_row = real(k) + real(n);
  const double bytes = (weights + real(work.rows) * elements_a_row) * real(element_bytes(dtype));
  const std::int64_t tiles =
      std::max(active, ceil_div(work.scheduled_rows, tile_rows)) * ceil_div(n, widest_tile_columns);
  const double slots = real(ceil_div(tiles, model.hardware.sms)) * real(model.hardware.sms);
  const double flops = 2 * real(work.scheduled_rows) * real(k) * real(n) * slots / real(tiles);
  // GB/s and GFLOP/s are a thousand bytes and FLOPs a microsecond.
  ModelledTime time;
  time.memory_us = bytes / (model.bandwidth_fraction * model.hardware.bandwidth * 1e3);
  time.compute_us = flops / (model.peak_fraction * model.hardware.peak(dtype) * 1e3);
  time.us = model.overhead_us + std::max(time.memory_us, time.compute_us);
  return time;
}

ModelledTime batch_time(const TimeModel& model, const BatchWork& work, const ModelShape& shape) {
  const ModelledTime up =
      product_time(model, work, shape.d_model, up_columns(shape.mlp, shape.d_ff), shape.dtype);
  const ModelledTime down = product_time(model, work, shape.d_ff, shape.d_model, shape.dtype);
  return {up.memory_us + down.memory_us, up.compute_us + down.compute_us, up.us + down.us};
}

}  // namespace dropless
