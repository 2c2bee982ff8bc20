// A comparison as text: the two sides, the totals a line each, then one line a layer and as many figures
// beside each other as fit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "report/compare.hpp"
#include "report/html_text.hpp"
#include "report/text_format.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

/// A figure of the tables: its name, where its {a, b, difference} stands, and how it is written.
struct Column {
  std::string title;
  json::json_pointer place;
  double scale;
  int decimals;
};

/// Figures of one kind: a paragraph of the totals and a table of the layers.
struct Group {
  std::string heading, layer_heading;
  std::vector<Column> columns;
};

std::string words(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string side_text(const char* name, const json& side) {
  std::string text =
      fmt::format("{}  {} ({}): {}, {}, {}, {}", name, words(side["path"]), words(side["format"]),
                  counted(side["layers"], "layer"), counted(side["experts"], "expert"),
                  counted(side["batches"], "batch"), counted(side["useful_rows"], "useful row"));
  text = wrapped(text, 3) + "\n";
  for (const auto& [kind, key] : {std::pair{"note", "assumptions"}, {"warning", "warnings"}})
    for (const json& sentence : side[key])
      text += wrapped(fmt::format("   {}: {}", kind, words(sentence)), 5) + "\n";
  return text;
}

/// A column for each entry of `list` that has the figure; `key` names an entry.
std::vector<Column> columns_of(const json& list, const json::json_pointer& place, const char* key,
                               const char* figure, double scale, int decimals) {
  std::vector<Column> columns;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (!list[i][figure].is_null())
      columns.push_back({words(list[i][key]), place / i / figure, scale, decimals});
  return columns;
}

std::vector<Group> groups_of(const json& figures, bool padding_is_meaningful) {
  using Place = json::json_pointer;
  std::vector<Group> groups{{"",
                             "Imbalance by layer",
                             {{"max / mean", Place("/max_over_mean"), 1, 2},
                              {"CV", Place("/coefficient_of_variation"), 1, 2},
                              {"Gini", Place("/gini"), 1, 3},
                              {"never used", Place("/experts_never_used"), 1, 0}}}};
  if (padding_is_meaningful) {
    const json& policies = figures["policies"];
    groups.push_back({"padding % of", "Padding % by layer",
                      columns_of(policies, Place("/policies"), "policy", "padding_fraction", 100, 1)});
    groups.push_back({"modelled us of a batch under", "Modelled us of a batch by layer",
                      columns_of(policies, Place("/policies"), "policy", "time_a_batch_us", 1, 1)});
  }
  if (const json& ranks = figures["ranks"]; ranks.is_object()) {
    const Place place("/ranks/placements");
    const std::string count = ranks["ranks"].dump();
    groups.push_back({"fullest / mean of " + count + " ranks, experts", "Fullest / mean rank by layer",
                      columns_of(ranks["placements"], place, "placement", "max_over_mean", 1, 2)});
    if (padding_is_meaningful)
      groups.push_back(
          {"modelled us of the slowest of " + count + " ranks, experts",
           "Modelled us of the slowest rank by layer",
           columns_of(ranks["placements"], place, "placement", "slowest_rank_time_a_batch_us", 1, 1)});
  }
  return groups;
}

/// "before -> after +difference" of one figure, right-aligned in `width` with as many of the column's
/// decimals as fit.
std::string cell(const json& figures, const Column& column, std::size_t width) {
  if (!figures.contains(column.place) || !figures[column.place].is_object())
    return fmt::format("{:>{}}", "unknown", width);
  const json& change = figures[column.place];
  const auto value = [&](const char* key) { return column.scale * change[key].get<double>(); };
  std::string text;
  for (int decimals = column.decimals; decimals >= 0 && (text.empty() || text.size() >= width); --decimals) {
    // A difference that prints as zero has no sign of its own.
    const bool rounds_to_zero = std::abs(value("difference")) * std::pow(10, decimals) < 0.5;
    text = fmt::format("{:.{}f} -> {:.{}f} {:>+7.{}f}", value("a"), decimals, value("b"), decimals,
                       rounds_to_zero ? 0 : value("difference"), decimals);
  }
  return fmt::format("{:>{}}", text, width);
}

bool has_figures(const json& layer) { return layer.contains("policies"); }

/// One line a layer, for columns [begin, end) of the group.
std::string layer_table(const Group& group, const json& layers, std::size_t begin, std::size_t end,
                        std::size_t width) {
  std::string text = fmt::format("\n{}\n{:<8}", group.layer_heading, "layer");
  for (std::size_t i = begin; i < end; ++i) text += fmt::format("{:>{}}", group.columns[i].title, width);
  text += '\n';
  for (const json& layer : layers) {
    if (!has_figures(layer)) continue;
    text += fmt::format("{:<8}", layer["layer"].dump());
    for (std::size_t i = begin; i < end; ++i) text += cell(layer, group.columns[i], width);
    text += '\n';
  }
  return text;
}

/// The group's tables, with as many columns beside each other as fit.
std::string layer_tables(const Group& group, const json& layers) {
  std::size_t width = 23;
  for (const Column& column : group.columns) width = std::max(width, column.title.size() + 2);
  const std::size_t fitting = std::max<std::size_t>(1, (text_width - 8) / width);
  std::string text;
  for (std::size_t begin = 0; begin < group.columns.size(); begin += fitting)
    text += layer_table(group, layers, begin, std::min(group.columns.size(), begin + fitting), width);
  return text;
}

std::string layer_state(const json& layer) {
  std::string text;
  for (const auto& [name, key] : {std::pair{"A", "state_a"}, {"B", "state_b"}})
    if (layer[key] != "moe")
      text += fmt::format("{}{} in {}", text.empty() ? "" : ", ", words(layer[key]), name);
  return fmt::format("layer {}: {}\n", layer["layer"].dump(), text);
}

}  // namespace

std::string comparison_text(const json& comparison) {
  const json &a = comparison["a"], &b = comparison["b"], &layers = comparison["layers"];
  const bool meaningful = a["cumulative"] != true && b["cumulative"] != true;
  const std::vector<Group> groups = groups_of(comparison["totals"], meaningful);
  std::size_t width = 23;
  for (const Group& group : groups)
    for (const Column& column : group.columns) width = std::max(width, column.title.size() + 4);
  std::string text = side_text("A", a) + side_text("B", b);
  if (!meaningful) text += "Padding of counts that were gathered over a whole run is not meaningful.\n";
  for (const auto& [name, side] : {std::pair{"A", &a}, {"B", &b}})
    if (const json& only = (*side)["policies_only_here"]; !only.empty()) {
      std::string names;
      for (const json& policy : only) names += (names.empty() ? "" : ", ") + words(policy);
      text += wrapped(fmt::format("Only {} has the policies {}", name, names), 3) + "\n";
    }

  if (meaningful && a["hardware"].is_string() && b["hardware"].is_string())
    text += wrapped(fmt::format("Times are a model, not a measurement: A on {}, B on {}",
                                words(a["hardware"]), words(b["hardware"])),
                    3) +
            "\n";

  for (const json& layer : layers)
    if (!has_figures(layer)) text += layer_state(layer);

  text += fmt::format("\n{:<{}}{:>28}\n", "All layers", width, "A -> B  change");
  for (const Group& group : groups) {
    if (!group.heading.empty() && !group.columns.empty()) text += group.heading + "\n";
    for (const Column& column : group.columns)
      text += fmt::format("{:<{}}{}\n", (group.heading.empty() ? "" : "  ") + column.title, width,
                          cell(comparison["totals"], column, 28));
  }
  if (std::any_of(layers.begin(), layers.end(), has_figures))
    for (const Group& group : groups) text += layer_tables(group, layers);
  return text;
}

}  // namespace dropless
