// Figures are found by what the tables call them, and no label stands in the definitions that nothing prints.
#include <algorithm>
#include <sstream>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "report/compare.hpp"
#include "report/html_page.hpp"
#include "report/report_json.hpp"
#include "report/sweep.hpp"

using namespace dropless;

namespace {

bool calls(const std::string& label, const std::string& name) {
  const std::vector<MetricDefinition> called = metrics_called(label);
  return std::any_of(called.begin(), called.end(),
                     [&](const MetricDefinition& metric) { return metric.name == name; });
}

/// A report of everything, in every form that has labels.
std::string all_that_is_printed() {
  MemoryTrace trace(4, 1, {{0, {3, 0, 130, 128}}, {2, {1, 2, 3, 4}}});
  trace.info().top_k = 1;
  ReportOptions options;
  options.policies = {"dropless", "vllm:64", "max", "capacity:1:megatron"};
  options.model = find_model_shape("olmoe_like");
  options.time.emplace().hardware = find_hardware("H200");
  options.ranks = 2;
  options.sms = 132;
  Report report = make_report(trace, options);
  report.trace_unrouted = report.trace_warmup_rows = 1;
  report.totals.policies[0].added_rows = 1;
  const nlohmann::ordered_json document = report_document(report);
  return report_text(report) + html_page(document) + sweep_text({{64, report}}) +
         comparison_text(compare_reports(document, document));
}

}  // namespace

TEST_CASE("report definitions: what the tables print is found") {
  for (const auto& [label, name] : {std::pair{"CV", "coefficient_of_variation"},
                                    {"Gini", "gini"},
                                    {"launches", "launched_rows"},
                                    {"padding %", "padding_fraction"},
                                    {"padding", "padding_fraction"},
                                    {"p95", "padding_p95"},
                                    {"p95", "time_p95_us"},
                                    {"dropped %", "dropped_rows"},
                                    {"useful rows", "useful_rows"},
                                    {"useful rows (sum)", "useful_rows"},
                                    {"max/mean", "max_over_mean"},
                                    {"max / mean", "max_over_mean_max"},
                                    {"active / batch", "active_experts"},
                                    {"never used", "experts_never_used"},
                                    {"rows per batch", "rows_per_batch"},
                                    {"scheduled FLOPs", "scheduled_flops"},
                                    {"memory-bound %", "memory_bound_share"},
                                    {"padding_fraction", "padding_fraction"}}) {
    CAPTURE(label);
    CHECK(calls(label, name));
  }
  CHECK(metrics_called("padding_fraction").size() == 1);
  CHECK(metrics_called("foo").empty());
  CHECK(metrics_called("").empty());
}

TEST_CASE("report definitions: every label is printed") {
  const std::string printed = all_that_is_printed();
  for (const MetricDefinition& metric : metric_definitions())
    for (const std::string& label : metric.labels) {
      // A heading may stand over two lines, so its words are looked for one by one.
      std::istringstream words(label);
      for (std::string word; words >> word;) {
        CAPTURE(metric.name, label);
        CHECK_THAT(printed, Catch::Contains(word));
      }
    }
}
