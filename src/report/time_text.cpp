// One line for each policy, then the advice. Times are compared with those of the first policy in the list,
// by default this library's own.
#include "report/time_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "report/advice.hpp"
#include "report/record.hpp"
#include "report/text_format.hpp"

namespace dropless {
namespace {

std::string model_line(const Report& report) {
  const TimeModel& model = *report.options.time;
  const HardwareProfile& hardware = model.hardware;
  return fmt::format(
      "{}: {:.6g} GFLOP/s ({}) at {:.1f} %, {:.6g} GB/s at {:.1f} %, {} SMs, {:.2f} us a product ({}). Every "
      "policy is timed "
      "as if its kernels reached this.",
      hardware.name, hardware.peak(report.options.model->dtype), element_name(report.options.model->dtype),
      100 * model.peak_fraction, hardware.bandwidth, 100 * model.bandwidth_fraction, hardware.sms,
      model.overhead_us,
      model.fitted_to.empty() ? "not fitted: the published limits (--calibrate)"
                              : "fitted to " + model.fitted_to);
}

std::string time_table(const Report& report, const RoutingFigures& figures) {
  std::size_t name_width = 12;
  for (const Policy& policy : report.policies) name_width = std::max(name_width, policy.name.size());
  std::string out = fmt::format("{:<{}}{:>14}{:>10}{:>10}{:>10}{:>10}{:>15}\n", "policy", name_width,
                                "sum, us", "vs first", "p50, us", "p95, us", "p99, us", "memory-bound %");
  for (std::size_t i = 0; i < figures.policies.size(); ++i) {
    const TimeFigures& time = *figures.policies[i].time;
    const double first = figures.policies[0].time->us;
    fmt::format_to(std::back_inserter(out), "{:<{}}{:>14.1f}{:>10.3f}{:>10.1f}{:>10.1f}{:>10.1f}{:>15}\n",
                   report.policies[i].name, name_width, time.us, first > 0 ? time.us / first : 0.0, time.p50,
                   time.p95, time.p99, percent(time.memory_bound_share));
  }
  return out;
}

}  // namespace

std::string time_text(const Report& report) {
  const RoutingFigures& figures =
      report.totals_without_warmup ? *report.totals_without_warmup : report.totals;
  if (figures.batches_with_rows == 0) return "";
  std::string out;
  if (models_time(report) && !report.trace.cumulative) {
    out += fmt::format("\nTime of both forward products{}: a model, not a measurement\n",
                       report.totals_without_warmup ? " without the warm-up" : "");
    out += wrapped(model_line(report), 2) + "\n" + time_table(report, figures);
  }
  out += "\nWhat to do\n";
  for (const std::string& line : what_to_do(report)) out += wrapped("- " + line, 2) + "\n";
  return out;
}

}  // namespace dropless
