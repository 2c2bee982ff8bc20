// Tables whose columns are left out where no line has anything to say in them.
#include "report/html_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "report/html_text.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

bool is_known(const json& row, const char* key) { return !member(row, key).is_null(); }
bool never(const json&, const char*) { return false; }
bool is_above_zero(const json& row, const char* key) {
  return member(row, key).is_number() && member(row, key) > 0;
}
bool differs_from_scheduled(const json& row, const char* key) {
  return is_known(row, key) && member(row, key) != member(row, "scheduled_rows");
}

struct Column {
  const char* key;
  const char* heading;
  std::string (*format)(const json&);
  bool (*says_something)(const json& row, const char* key) = is_known;
};

std::string percent_and_meter(const json& fraction) {
  if (!fraction.is_number()) return html_percent(fraction);
  return fmt::format("<span class=\"meter\" aria-hidden=\"true\"><i style=\"width:{:.1f}%\"></i></span>{}",
                     100 * fraction.get<double>(), html_percent(fraction));
}

std::string policy_heading(const json& policy) {
  return "<code>" + html_words(policy, "policy") + "</code><small>" + html_words(policy, "source") +
         "</small>";
}

std::string not_meaningful(const json&) { return "not meaningful"; }

/// `row_heading` writes the first cell of a row.
std::string table(const json& rows, const char* first_heading, std::string (*row_heading)(const json&),
                  const std::vector<Column>& columns) {
  std::vector<Column> used;
  std::copy_if(columns.begin(), columns.end(), std::back_inserter(used), [&rows](const Column& column) {
    return std::any_of(rows.begin(), rows.end(),
                       [&column](const json& row) { return column.says_something(row, column.key); });
  });
  if (used.empty()) return "";
  std::string html = fmt::format("<table><thead><tr><th scope=\"col\" class=\"left\">{}</th>", first_heading);
  for (const Column& column : used) html += fmt::format("<th scope=\"col\">{}</th>", column.heading);
  html += "</tr></thead><tbody>\n";
  for (const json& row : rows) {
    html += "<tr><th scope=\"row\">" + row_heading(row) + "</th>";
    for (const Column& column : used) html += "<td>" + column.format(member(row, column.key)) + "</td>";
    html += "</tr>\n";
  }
  return html + "</tbody></table>";
}

}  // namespace

std::string policy_table(const json& policies, bool padding_is_meaningful) {
  const auto padding = padding_is_meaningful ? percent_and_meter : not_meaningful;
  const auto percentile = padding_is_meaningful ? is_known : never;
  return table(policies, "policy", policy_heading,
               {{"scheduled_rows", "scheduled<br>rows", html_count},
                {"launched_rows", "launched<br>rows", html_count, differs_from_scheduled},
                {"padding_fraction", "padding", padding},
                {"padding_p50", "p50", html_percent, percentile},
                {"padding_p95", "p95", html_percent, percentile},
                {"padding_p99", "p99", html_percent, percentile},
                {"padding_max", "max", html_percent, percentile},
                {"dropped_rows", "dropped<br>rows", html_count, is_above_zero},
                {"added_rows", "added<br>rows", html_count, is_above_zero},
                {"metadata_bytes", "metadata", html_bytes},
                {"padding_activation_bytes", "padding<br>in memory", html_bytes},
                {"useful_flops", "useful<br>FLOPs", html_flops},
                {"scheduled_flops", "scheduled<br>FLOPs", html_flops}});
}

std::string time_table(const json& policies) {
  return table(policies, "policy", policy_heading,
               {{"time_us", "sum,<br>us", html_decimal},
                {"time_p50_us", "p50 of batches,<br>us", html_decimal},
                {"time_p95_us", "p95,<br>us", html_decimal},
                {"time_p99_us", "p99,<br>us", html_decimal},
                {"memory_bound_share", "batches bound<br>by memory", percent_and_meter}});
}

std::string placement_table(const json& placements) {
  struct Part {
    const char* key;
    const char* batches;
  };
  const std::vector<Part> whole{{"all", ""}},
      halves{{"first_half", "first half of the batches (fitted)"}, {"second_half", "second half (not seen)"}};
  json rows = json::array();
  for (const json& placement : placements)
    for (const Part& part : member(placement, "first_half").is_object() ? halves : whole) {
      json row = member(placement, part.key);
      const json &sum = member(row, "slowest_rank_time_us"), &count = member(row, "batches");
      if (sum.is_number() && count.is_number() && count > 0)
        row["mean_us"] = sum.get<double>() / count.get<double>();
      row["placement"] = member(placement, "placement");
      row["part"] = part.batches;
      row["replicas"] = member(placement, "replicas");
      if (row["replicas"] != 0) row["extra_weight_bytes"] = member(placement, "extra_weight_bytes");
      rows.push_back(std::move(row));
    }
  const auto heading = [](const json& row) {
    return html_words(row, "placement") + "<small>" + html_words(row, "part") + "</small>";
  };
  return table(rows, "placement", heading,
               {{"batches", "batches<br>with rows", html_count},
                {"max_over_mean", "fullest / mean rank,<br>mean", html_decimal},
                {"max_over_mean_p50", "p50", html_decimal},
                {"max_over_mean_p95", "p95", html_decimal},
                {"max_over_mean_p99", "p99", html_decimal},
                {"max_over_mean_max", "max", html_decimal},
                {"mean_us", "slowest rank,<br>mean us", html_decimal},
                {"slowest_rank_time_p50_us", "p50,<br>us", html_decimal},
                {"slowest_rank_time_p95_us", "p95,<br>us", html_decimal},
                {"slowest_rank_time_p99_us", "p99,<br>us", html_decimal},
                {"replicas", "replicas<br>a layer", html_count, is_above_zero},
                {"extra_weight_bytes", "weights of<br>replicas", html_bytes}});
}

std::string layer_table(const json& layers) {
  const auto heading = [](const json& layer) {
    return html_count(member(layer, "layer")) + (member(layer, "dense") == true ? " (dense)" : "");
  };
  return table(layers, "layer", heading,
               {{"useful_rows", "useful<br>rows", html_count},
                {"empty_experts", "empty<br>experts", html_count},
                {"experts_never_used", "experts<br>never used", html_count},
                {"max_over_mean", "max / mean,<br>mean of batches", html_decimal},
                {"max_over_mean_max", "max / mean,<br>worst batch", html_decimal},
                {"coefficient_of_variation", "coefficient<br>of variation", html_decimal},
                {"gini", "Gini", html_decimal}});
}

std::string record_list(const json& value) {
  if (value.is_object()) {
    std::string list = "<dl class=\"record\">";
    for (const auto& [name, inner] : value.items()) {
      std::string term = html_escape(name);
      std::replace(term.begin(), term.end(), '_', ' ');
      list += "<dt>" + term + "</dt><dd>" + record_list(inner) + "</dd>";
    }
    return list + "</dl>";
  }
  if (value.is_array()) {
    std::string items;
    for (const json& inner : value) {
      if (!items.empty() && !inner.is_structured()) items += inner.is_string() ? "<br>" : ", ";
      items += record_list(inner);
    }
    return items;
  }
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  return value.is_string() ? html_escape(value.get<std::string>()) : html_count(value);
}

}  // namespace dropless
