// Two documents to one: figures side by side with their difference, and what only one of them has.
#include "report/compare.hpp"

#include <algorithm>
#include <map>

#include "dropless/error.hpp"
#include "report/html_text.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* imbalance_metrics[] = {"max_over_mean", "coefficient_of_variation", "gini",
                                             "experts_never_used"};

const json& number(const json& figures, const char* name) {
  const json& value = member(figures, name);
  if (!value.is_number()) throw Error(name, value.dump(), "a number in every part of a report");
  return value;
}

/// {a, b, difference}: whole numbers stay whole.
json change(const json& a, const json& b) {
  json out = {{"a", a}, {"b", b}};
  if (a.is_number_integer() && b.is_number_integer())
    out["difference"] = b.get<std::int64_t>() - a.get<std::int64_t>();
  else
    out["difference"] = b.get<double>() - a.get<double>();
  return out;
}

/// The entry of `list` whose `key` is `value`, or null.
const json& entry(const json& list, const char* key, const json& value) {
  static const json null;
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const json& one) { return member(one, key) == value; });
  return found == list.end() ? null : *found;
}

/// The change of a sum over batches as its mean over them, for the sides may have cut other batches; null
/// where a side does not know it.
json change_a_batch(const json& a, const json& b, const char* sum, const json& batches_a,
                    const json& batches_b) {
  if (!member(a, sum).is_number() || !member(b, sum).is_number()) return nullptr;
  const auto mean = [&](const json& figures, const json& batches) {
    return member(figures, sum).get<double>() / std::max(1.0, batches.get<double>());
  };
  return change(mean(a, batches_a), mean(b, batches_b));
}

/// Null unless both sides have as many ranks; placements in A's order.
json rank_changes(const json& a, const json& b) {
  if (!a.is_object() || !b.is_object() || member(a, "ranks") != member(b, "ranks")) return nullptr;
  json out = {{"ranks", member(a, "ranks")}, {"placements", json::array()}};
  for (const json& placement : member(a, "placements")) {
    const json& counterpart = entry(member(b, "placements"), "placement", member(placement, "placement"));
    if (counterpart.is_null()) continue;
    const json &all_a = member(placement, "all"), &all_b = member(counterpart, "all");
    out["placements"].push_back(
        {{"placement", member(placement, "placement")},
         {"max_over_mean", change(number(all_a, "max_over_mean"), number(all_b, "max_over_mean"))},
         {"slowest_rank_time_a_batch_us",
          change_a_batch(all_a, all_b, "slowest_rank_time_us", number(all_a, "batches"),
                         number(all_b, "batches"))}});
  }
  return out;
}

/// What the figures of two totals, or of two layers, have in common; policies in A's order.
json changes(const json& a, const json& b) {
  json out;
  for (const char* name : imbalance_metrics) out[name] = change(number(a, name), number(b, name));
  out["policies"] = json::array();
  for (const json& policy : member(a, "policies")) {
    const json& counterpart = entry(member(b, "policies"), "policy", member(policy, "policy"));
    if (counterpart.is_null()) continue;
    out["policies"].push_back(
        {{"policy", member(policy, "policy")},
         {"padding_fraction",
          change(number(policy, "padding_fraction"), number(counterpart, "padding_fraction"))},
         {"time_a_batch_us", change_a_batch(policy, counterpart, "time_us", number(a, "batches_with_rows"),
                                            number(b, "batches_with_rows"))}});
  }
  out["ranks"] = rank_changes(member(a, "ranks"), member(b, "ranks"));
  return out;
}

/// Names of the policies of `list` that `other` lacks.
json policies_missing_from(const json& other, const json& list) {
  json names = json::array();
  for (const json& policy : list)
    if (entry(other, "policy", member(policy, "policy")).is_null()) names.push_back(member(policy, "policy"));
  return names;
}

json side(const json& report, const json& other) {
  if (member(report, "schema_version") != 1)
    throw Error("schema_version", member(report, "schema_version").dump(), "1, a report of this program");
  const json &trace = member(report, "trace"), &totals = member(report, "totals");
  json out;
  for (const char* key :
       {"path", "format", "experts", "top_k", "layers", "batches", "cumulative", "assumptions", "warnings"})
    out[key] = member(trace, key);
  out["useful_rows"] = number(totals, "useful_rows");
  out["hardware"] = member(member(report, "hardware"), "name");
  out["policies_only_here"] =
      policies_missing_from(member(member(other, "totals"), "policies"), member(totals, "policies"));
  return out;
}

const char* state(const json* layer) {
  if (layer == nullptr) return "absent";
  return member(*layer, "dense") == true ? "dense" : "moe";
}

}  // namespace

json compare_reports(const json& a, const json& b) {
  json out = {{"schema_version", 1}, {"a", side(a, b)}, {"b", side(b, a)}};
  out["totals"] = changes(member(a, "totals"), member(b, "totals"));
  out["layers"] = json::array();
  struct Pair {
    const json *a = nullptr, *b = nullptr;
  };
  std::map<std::int64_t, Pair> layers;
  for (const json& layer : member(a, "layers")) layers[number(layer, "layer").get<std::int64_t>()].a = &layer;
  for (const json& layer : member(b, "layers")) layers[number(layer, "layer").get<std::int64_t>()].b = &layer;
  for (const auto& [layer, pair] : layers) {
    json line = {{"layer", layer}, {"state_a", state(pair.a)}, {"state_b", state(pair.b)}};
    if (line["state_a"] == "moe" && line["state_b"] == "moe") line.update(changes(*pair.a, *pair.b));
    out["layers"].push_back(std::move(line));
  }
  return out;
}

}  // namespace dropless
