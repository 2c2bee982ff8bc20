// Inline SVG: a heat map, curves and bars, drawn in units of a 1000 (or 380) wide view box.
#include "report/html_charts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

#include "report/html_text.hpp"
#include "report/svg_plot.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

/// Upper ends of the heat map's colours as ratios to the layer's mean; the last colour has no end. Colour 0
/// is for an expert without a row.
constexpr std::array<double, 9> heat_ends = {0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2, 3, 4};

std::size_t heat_colour(double ratio) {
  if (ratio == 0) return 0;
  return 1 + static_cast<std::size_t>(std::upper_bound(heat_ends.begin(), heat_ends.end(), ratio) -
                                      heat_ends.begin());
}

std::string heat_legend() {
  std::string legend = "<ul class=\"legend\"><li><i class=\"swatch h0\"></i>no rows</li>";
  for (std::size_t colour = 1; colour <= heat_ends.size() + 1; ++colour) {
    const std::string range = colour == 1 ? fmt::format("below {}", heat_ends[0])
                              : colour > heat_ends.size()
                                  ? fmt::format("{} and more", heat_ends.back())
                                  : fmt::format("{} – {}", heat_ends[colour - 2], heat_ends[colour - 1]);
    legend += fmt::format("<li><i class=\"swatch h{}\"></i>{}</li>", colour, range);
  }
  return legend + "</ul>";
}

struct Bar {
  std::string label, description;
  double batches;
};

std::string bar_chart(const std::vector<Bar>& bars, const std::string& x_label, const std::string& label) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.batches);
  if (most == 0) return "";
  const Plot plot;
  std::string svg = open_svg(Plot::width, Plot::height, label);
  for (const double share : {0.0, 0.5, 1.0})
    if (std::fmod(share * most, 1) == 0) svg += plot.gridline(share, html_short_count(json(share * most)));
  const double step = 1 / static_cast<double>(bars.size());
  const std::size_t every = (bars.size() + 4) / 5;
  for (std::size_t i = 0; i < bars.size(); ++i) {
    const double begin = static_cast<double>(i) * step, bar_width = std::min(step, 0.2);
    const double share = bars[i].batches / most, x = plot.x(begin + (step - bar_width) / 2);
    svg += fmt::format(
        "<rect class=\"bar\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" "
        "height=\"{:.2f}\"><title>{}</title></rect>",
        x + 0.75, plot.y(share), plot.x(bar_width) - Plot::left - 1.5, plot.y(0) - plot.y(share),
        html_escape(bars[i].description));
    if (i % every == 0) svg += svg_text(plot.x(begin + step / 2), Plot::bottom + 16, "middle", bars[i].label);
  }
  return svg + svg_text((Plot::left + Plot::right) / 2, Plot::height - 8, "middle", x_label) + "</svg>";
}

/// One heat map line: the cells of a layer, neighbouring experts together where there are more than fit.
std::string heat_line(const json& layer, std::size_t experts_per_cell, double y, double cell_width,
                      double cell_height) {
  const auto rows = member(layer, "rows_per_expert").get<std::vector<double>>();
  double sum = 0;
  for (const double count : rows) sum += count;
  const double mean = sum / static_cast<double>(rows.size());
  std::string line;
  for (std::size_t first = 0, cell = 0; first < rows.size(); first += experts_per_cell, ++cell) {
    const std::size_t end = std::min(rows.size(), first + experts_per_cell);
    const auto largest = std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(first),
                                          rows.begin() + static_cast<std::ptrdiff_t>(end));
    const double ratio = mean > 0 ? *largest / mean : 0;
    line += fmt::format(
        "<rect class=\"h{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\">"
        "<title>layer {}, expert {}: {} rows, {:.2f} of the mean</title></rect>",
        heat_colour(ratio), 60 + static_cast<double>(cell) * cell_width, y,
        cell_width - std::min(1.0, cell_width * 0.1), cell_height - 1, html_count(member(layer, "layer")),
        largest - rows.begin(), html_count(static_cast<std::int64_t>(*largest)), ratio);
  }
  return line;
}

}  // namespace

std::string heat_map_chart(const json& layers) {
  std::vector<const json*> drawn;
  std::size_t experts = 0;
  for (const json& layer : layers) {
    if (!member(layer, "rows_per_expert").is_array() || member(layer, "rows_per_expert").empty()) continue;
    drawn.push_back(&layer);
    experts = std::max(experts, member(layer, "rows_per_expert").size());
  }
  if (drawn.empty()) return "";
  constexpr std::size_t most_cells = 256;
  const std::size_t experts_per_cell = (experts + most_cells - 1) / most_cells;
  const double cells = std::ceil(static_cast<double>(experts) / static_cast<double>(experts_per_cell));
  const double cell_width = 936 / cells, cell_height = drawn.size() <= 16 ? 24 : 12;
  const double bottom = 8 + cell_height * static_cast<double>(drawn.size());
  std::string svg =
      open_svg(1000, static_cast<int>(bottom) + 44,
               fmt::format("Rows per expert of {} layers and {} experts, relative to the layer's mean",
                           drawn.size(), experts));
  for (std::size_t line = 0; line < drawn.size(); ++line) {
    const double y = 8 + cell_height * static_cast<double>(line);
    if (cell_height >= 16 || line % 5 == 0)
      svg += svg_text(52, y + cell_height / 2 + 4, "end", html_count(member(*drawn[line], "layer")));
    svg += heat_line(*drawn[line], experts_per_cell, y, cell_width, cell_height);
  }
  const std::size_t step = std::max<std::size_t>(1, experts / 16);
  for (std::size_t expert = 0; expert < experts; expert += step) {
    const std::size_t cell = expert / experts_per_cell;
    svg += svg_text(60 + (static_cast<double>(cell) + 0.5) * cell_width, bottom + 16, "middle",
                    std::to_string(expert));
  }
  svg += svg_text(528, bottom + 36, "middle", "expert (each line is a layer)") + "</svg>";
  if (experts_per_cell > 1)
    svg += fmt::format(
        "<p class=\"note\">Each cell stands for {} neighbouring experts and shows the largest of "
        "them.</p>",
        experts_per_cell);
  return svg + heat_legend();
}

std::string padding_chart(const json& padding_by_block, const json& layers) {
  if (!padding_by_block.is_array() || padding_by_block.empty()) return "";
  const Plot plot;
  const auto blocks = static_cast<double>(padding_by_block.size());
  const auto x_of = [&](std::size_t i) { return plot.x((static_cast<double>(i) + 0.5) / blocks); };
  std::string svg =
      open_svg(Plot::width, Plot::height, "Padding fraction of the scheduled rows by block size");
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg += plot.gridline(share, fmt::format("{:.0f} %", share * 100));
  const auto points_of = [&](const json& curve) {
    std::string points;
    for (std::size_t i = 0; i < curve.size(); ++i)
      if (const json& padding = member(curve[i], "padding_fraction"); padding.is_number())
        points += fmt::format("{:.1f},{:.1f} ", x_of(i), plot.y(padding));
    return points;
  };
  for (const json& layer : layers)
    svg += fmt::format("<polyline class=\"layer\" points=\"{}\"><title>layer {}</title></polyline>",
                       points_of(member(layer, "padding_by_block")), html_count(member(layer, "layer")));
  std::string marks;
  for (std::size_t i = 0; i < padding_by_block.size(); ++i) {
    const std::string block = html_count(member(padding_by_block[i], "block"));
    svg += svg_text(x_of(i), Plot::bottom + 16, "middle", block);
    const json& padding = member(padding_by_block[i], "padding_fraction");
    if (!padding.is_number()) continue;
    const double y = plot.y(padding);
    marks += fmt::format("<circle class=\"total\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\"/>", x_of(i), y);
    marks += svg_text(x_of(i), y - 10, "middle", html_percent(padding));
  }
  svg += fmt::format("<polyline class=\"total\" points=\"{}\"/>{}", points_of(padding_by_block), marks);
  return svg + svg_text((Plot::left + Plot::right) / 2, Plot::height - 8, "middle", "block size in rows") +
         "</svg><ul class=\"legend\"><li><i class=\"swatch line\"></i>all layers</li>"
         "<li><i class=\"swatch line thin\"></i>single layers</li></ul>";
}

std::string rows_histogram_chart(const json& histogram) {
  std::vector<Bar> bars;
  for (const json& bin : histogram) {
    const json &begin = member(bin, "rows_at_least"), &end = member(bin, "rows_below"),
               &batches = member(bin, "batches");
    if (!batches.is_number()) continue;
    bars.push_back({html_short_count(begin),
                    fmt::format("{} batches with {} rows or more and fewer than {}", html_count(batches),
                                html_count(begin), html_count(end)),
                    batches});
  }
  return bar_chart(bars, "rows of a batch, from", "Batches by the rows they hold");
}

std::string padding_histogram_chart(const json& histogram) {
  std::vector<Bar> bars;
  for (const json& bin : histogram) {
    const json &begin = member(bin, "padding_at_least"), &end = member(bin, "padding_below");
    const json& batches = member(bin, "batches");
    if (!begin.is_number() || !batches.is_number()) continue;
    bars.push_back({fmt::format("{:.0f} %", 100 * begin.get<double>()),
                    fmt::format("{} batches with a padding from {} to {}", html_count(batches),
                                html_percent(begin), html_percent(end)),
                    batches});
  }
  return bar_chart(bars, "padding of a batch at block 128, from",
                   "Batches by their padding at a block of 128");
}

}  // namespace dropless
