// The sentences of the record.
#include "report/record.hpp"

#include <fmt/format.h>

namespace dropless {

bool models_time(const Report& report) { return report.options.model && report.options.time; }

const char* flops_formula(MlpKind kind) { return kind == MlpKind::glu ? "6ndh" : "4ndh"; }

std::string percentiles_method(const Report& report) {
  return report.exact_percentiles ? "exact" : "from bins of 1e-4 (more than 100000 batches)";
}

std::vector<RecordEntry> record_entries(const Report& report) {
  const std::int64_t experts = report.trace.experts, ranks = report.options.ranks;
  std::vector<RecordEntry> entries;
  entries.push_back(
      {"local_experts",
       ranks > 0 ? fmt::format("{} of {} on the largest of {} ranks, contiguous; policies are counted as if "
                               "one rank held all",
                               ceil_div(experts, ranks), experts, ranks)
                 : fmt::format("all {} (--ranks N shows contiguous expert parallelism)", experts)});
  if (const auto& model = report.options.model) {
    entries.push_back({"widths", fmt::format("d_model {}, d_ff {}{}", model->d_model, model->d_ff,
                                             model->name.empty() ? "" : " (" + model->name + ")")});
    entries.push_back({"mlp", fmt::format("{}: {} FLOPs forward, n rows, d = d_model, h = d_ff",
                                          mlp_kind_name(model->mlp), flops_formula(model->mlp))});
    entries.push_back({"dtype", fmt::format("{} weights and activations", element_name(model->dtype))});
    entries.push_back(
        {"precision_path", fmt::format("{} operands, float accumulation", element_name(model->dtype))});
  } else {
    entries.push_back(
        {"widths", "not given (--model, or --mlp --d-model --d-ff --dtype): no FLOPs, no bytes"});
    entries.push_back({"dtype", "not given"});
    entries.push_back({"precision_path", "not given"});
  }
  return entries;
}

std::vector<std::string> not_included(const Report& report) {
  return {models_time(report) ? "time other than of the products" : "time",
          "router, permutation and combine",
          "communication between ranks",
          "shared experts and dense layers",
          "columns that a kernel pads",
          "backward pass"};
}

}  // namespace dropless
