// What the time table and its heading say, as JSON.
#include "report/time_json.hpp"

#include "report/advice.hpp"

namespace dropless {

void add_time(const std::optional<TimeFigures>& time, nlohmann::ordered_json& policy) {
  for (const char* key :
       {"time_us", "time_p50_us", "time_p95_us", "time_p99_us", "bound", "memory_bound_share"})
    policy[key] = nullptr;
  if (!time) return;
  policy["time_us"] = time->us;
  policy["time_p50_us"] = time->p50;
  policy["time_p95_us"] = time->p95;
  policy["time_p99_us"] = time->p99;
  policy["bound"] = time->memory_bound_share >= 0.5 ? "memory" : "compute";
  policy["memory_bound_share"] = time->memory_bound_share;
}

void add_time_model(const Report& report, nlohmann::ordered_json& document) {
  const TimeModel& model = *report.options.time;
  const HardwareProfile& hardware = model.hardware;
  document["hardware"] = {
      {"sms", hardware.sms},
      {"name", hardware.name},
      {"peak_gflops",
       {{"bf16", hardware.bf16_peak}, {"fp16", hardware.fp16_peak}, {"fp32", hardware.fp32_peak}}},
      {"bandwidth_gbs", hardware.bandwidth},
      {"source", hardware.source},
      {"peak_fraction", model.peak_fraction},
      {"bandwidth_fraction", model.bandwidth_fraction},
      {"overhead_us", model.overhead_us},
      {"fitted_to",
       model.fitted_to.empty() ? nlohmann::ordered_json(nullptr) : nlohmann::ordered_json(model.fitted_to)},
      {"times_are", "a model, not a measurement"}};
  document["what_to_do"] = what_to_do(report);
}

}  // namespace dropless
