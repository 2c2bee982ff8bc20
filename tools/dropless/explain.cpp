// Formulas and sources of policies, definitions of metrics, and the metadata that systems keep, side by side.
#include "explain.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "dropless/report.hpp"
#include "policies/metadata.hpp"
#include "report/text_format.hpp"

namespace {

std::string explain_policy(const std::string& name) {
  const dropless::Policy policy = dropless::make_policy(name);
  return dropless::wrapped(fmt::format("{}: {}", policy.name, policy.formula), 2) +
         fmt::format("\n  source: {}\n", policy.source) +
         "  n rows and T tokens of a batch, E experts; round_up(a, m): a rounded up to a multiple of m\n";
}

/// Whether `name` begins as the spelling of a policy does, rightly spelled or not.
bool names_policy(const std::string& name) {
  const auto family = [](const std::string& text) { return text.substr(0, text.find_first_of(":[")); };
  const std::vector<dropless::PolicyForm> forms = dropless::policy_forms();
  return std::any_of(forms.begin(), forms.end(),
                     [&](const dropless::PolicyForm& form) { return family(form.spelling) == family(name); });
}

std::string explain_policies() {
  std::string out;
  for (const dropless::PolicyForm& form : dropless::policy_forms())
    out += fmt::format("{}\n  {}\n", form.spelling, form.meaning);
  std::string shown = "Shown by default:";
  for (const std::string& name : dropless::default_policies(true)) shown += ' ' + name;
  return out + dropless::wrapped(shown, 2) + "\n";
}

std::string explain_metrics(const std::vector<dropless::MetricDefinition>& metrics) {
  std::string out;
  for (const dropless::MetricDefinition& metric : metrics) {
    const std::string labels =
        metric.labels.empty() ? "" : fmt::format(" ({})", fmt::join(metric.labels, "; "));
    out += dropless::wrapped(metric.name + labels + ": " + metric.definition, 2) + "\n";
  }
  return out;
}

/// What each system keeps beside the products of one batch of a common size.
std::string explain_metadata() {
  constexpr std::int64_t tokens = 32768, top_k = 8, experts = 128, rows = tokens * top_k;
  dropless::ModelShape shape;
  shape.d_model = 4096;
  shape.d_ff = 1024;
  const std::vector<std::int64_t> balanced(experts, rows / experts);
  const dropless::BatchRows batch(balanced, tokens, top_k);
  std::string out = fmt::format("Metadata bytes of one batch: T {}, k {}, E {}, d_ff {}, balanced\n", tokens,
                                top_k, experts, shape.d_ff);
  const auto add = [&out](const std::string& system, const std::string& policy, std::int64_t bytes) {
    out += fmt::format("{:<20}{:<18}{:>14}\n", system, policy, dropless::grouped(bytes));
  };
  for (const char* name :
       {"dropless", "block:128", "vllm:64", "sonic", "flat:128", "align:16", "torch", "capacity:1:tutel"}) {
    const dropless::Policy policy = dropless::make_policy(name, shape);
    add(policy.source, name, policy.cost(batch).metadata_bytes.value());
  }
  add("TensorRT-LLM", "(no policy)", dropless::tensorrt_llm_metadata_bytes(rows, experts));
  return out + "Formulas: dropless report --explain POLICY; TensorRT-LLM keeps 72 n + 8 (E + 1)\n";
}

}  // namespace

std::string explanation(const std::string& what) {
  if (what == "policies") return explain_policies();
  if (what == "metrics") return explain_metrics(dropless::metric_definitions());
  if (what == "metadata") return explain_metadata();
  std::string text = explain_metrics(dropless::metrics_called(what));
  if (names_policy(what)) text += explain_policy(what);
  if (text.empty())
    throw dropless::Error(
        "--explain", "'" + what + "'",
        "a figure (--explain metrics lists them), a policy (--explain policies) or metadata");
  return text;
}
