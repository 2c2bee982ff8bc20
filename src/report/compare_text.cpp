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

std::string words(const json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

std::string side_text(const char* name, const json& side) {
  std::string text =
      fmt::format("{}  {} ({}): {}, {}, {}, {}", name, words(side["path"]), words(side["format"]),
                  counted(side["layers"], "layer"), counted(side["experts"], "expert"),
                  counted(side["batches"], "batch"), counted(side["useful_rows"], "useful row"));
  text = wrapped(text, 3) + "\n";
  for (const json& warning : side["warnings"])
    text += wrapped(fmt::format("   warning: {}", words(warning)), 5) + "\n";
  return text;
}

std::vector<Column> columns_of(const json& figures, bool padding_is_meaningful) {
  using Place = json::json_pointer;
  std::vector<Column> columns{{"max / mean", Place("/max_over_mean"), 1, 2},
                              {"CV", Place("/coefficient_of_variation"), 1, 2},
                              {"Gini", Place("/gini"), 1, 3},
                              {"never used", Place("/experts_never_used"), 1, 0}};
  if (!padding_is_meaningful) return columns;
  for (std::size_t i = 0; i < figures["policies"].size(); ++i)
    columns.push_back(
        {words(figures["policies"][i]["policy"]), Place("/policies") / i / "padding_fraction", 100, 1});
  return columns;
}

/// "before -> after +difference" of one figure, right-aligned in `width`.
std::string cell(const json& figures, const Column& column, std::size_t width) {
  const json& change = figures[column.place];
  const auto value = [&](const char* key) { return column.scale * change[key].get<double>(); };
  // A difference that prints as zero has no sign of its own.
  const double unit = std::pow(10, column.decimals);
  const double difference = std::abs(value("difference")) * unit < 0.5 ? 0 : value("difference");
  const std::string text = fmt::format("{:.{}f} -> {:.{}f} {:>+7.{}f}", value("a"), column.decimals,
                                       value("b"), column.decimals, difference, column.decimals);
  return fmt::format("{:>{}}", text, width);
}

bool has_figures(const json& layer) { return layer.contains("policies"); }

/// One line a layer, for columns [begin, end).
std::string layer_table(const char* heading, const json& layers, const std::vector<Column>& columns,
                        std::size_t begin, std::size_t end, std::size_t width) {
  std::string text = fmt::format("\n{}\n{:<8}", heading, "layer");
  for (std::size_t i = begin; i < end; ++i) text += fmt::format("{:>{}}", columns[i].title, width);
  text += '\n';
  for (const json& layer : layers) {
    if (!has_figures(layer)) continue;
    text += fmt::format("{:<8}", layer["layer"].dump());
    for (std::size_t i = begin; i < end; ++i) text += cell(layer, columns[i], width);
    text += '\n';
  }
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
  const std::vector<Column> columns = columns_of(comparison["totals"], meaningful);
  constexpr std::size_t imbalance_columns = 4;
  std::size_t width = 23;
  for (const Column& column : columns) width = std::max(width, column.title.size() + 2);
  std::string text = side_text("A", a) + side_text("B", b);
  if (!meaningful) text += "Padding of counts that were gathered over a whole run is not meaningful.\n";
  for (const auto& [name, side] : {std::pair{"A", &a}, {"B", &b}})
    if (const json& only = (*side)["policies_only_here"]; !only.empty()) {
      std::string names;
      for (const json& policy : only) names += (names.empty() ? "" : ", ") + words(policy);
      text += wrapped(fmt::format("Only {} has the policies {}", name, names), 3) + "\n";
    }

  text += fmt::format("\n{:<{}}{:>28}\n", "All layers", width, "A -> B  change");
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (i == imbalance_columns) text += "padding % of\n";
    text += fmt::format("{:<{}}{}\n", (i < imbalance_columns ? "" : "  ") + columns[i].title, width,
                        cell(comparison["totals"], columns[i], 28));
  }

  for (const json& layer : layers)
    if (!has_figures(layer)) text += layer_state(layer);
  if (std::any_of(layers.begin(), layers.end(), has_figures)) {
    text += layer_table("Imbalance by layer", layers, columns, 0, imbalance_columns, 23);
    const std::size_t fitting = std::max<std::size_t>(1, (text_width - 8) / width);
    for (std::size_t begin = imbalance_columns; begin < columns.size(); begin += fitting)
      text += layer_table("Padding % by layer", layers, columns, begin,
                          std::min(columns.size(), begin + fitting), width);
  }
  return text;
}

}  // namespace dropless
