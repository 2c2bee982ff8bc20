// Curves of fractions over a few values of a knob, each value as far from the next.
#include "report/html_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "report/html_text.hpp"
#include "report/svg_plot.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

struct Curve {
  std::string name;
  std::vector<double> fractions;
};

/// How curve `i` of `curves` is drawn: hues evenly apart, every second one dashed.
std::string pen(std::size_t i, std::size_t curves) {
  return fmt::format("class=\"curve{}\" style=\"stroke:hsl({} 65% 48%)\"", i % 2 == 1 ? " dashed" : "",
                     (210 + 360 * i / curves) % 360);
}

/// Policies that schedule the same rows share a curve, which bears all their names.
std::vector<Curve> without_repeats(const std::vector<Curve>& curves) {
  std::vector<Curve> distinct;
  for (const Curve& curve : curves) {
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](const Curve& one) { return one.fractions == curve.fractions; });
    if (same == distinct.end())
      distinct.push_back(curve);
    else
      same->name += ", " + curve.name;
  }
  return distinct;
}

std::string curve_chart(const std::vector<std::string>& knob, const std::vector<Curve>& curves,
                        const std::string& knob_label, const std::string& label) {
  const Plot plot;
  const auto x_of = [&](std::size_t i) {
    return plot.x((static_cast<double>(i) + 0.5) / static_cast<double>(knob.size()));
  };
  std::string svg = open_svg(Plot::width, Plot::height, label), legend;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    svg += plot.gridline(share, fmt::format("{:.0f} %", share * 100));
  const std::size_t every = (knob.size() + 8) / 9;
  for (std::size_t i = 0; i < knob.size(); i += every)
    svg += svg_text(x_of(i), Plot::bottom + 16, "middle", knob[i]);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const std::string style = pen(c, curves.size()), name = html_escape(curves[c].name);
    std::string points, marks;
    for (std::size_t i = 0; i < curves[c].fractions.size(); ++i) {
      const double y = plot.y(curves[c].fractions[i]);
      points += fmt::format("{:.1f},{:.1f} ", x_of(i), y);
      marks +=
          fmt::format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"><title>{}, {}: {}</title></circle>",
                      style, x_of(i), y, name, html_escape(knob[i]), html_percent(curves[c].fractions[i]));
    }
    svg += fmt::format("<polyline {} points=\"{}\"/>{}", style, points, marks);
    legend += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 8\"><polyline {} points=\"0,4 24,4\"/></svg>{}</li>", style,
        name);
  }
  return svg + svg_text((Plot::left + Plot::right) / 2, Plot::height - 8, "middle", knob_label) +
         "</svg><ul class=\"legend\">" + legend + "</ul>";
}

double fraction(const json& object, const char* name) {
  const json& value = member(object, name);
  return value.is_number() ? value.get<double>() : 0;
}

}  // namespace

std::string batch_sweep_chart(const json& batch_tokens) {
  std::vector<std::string> sizes;
  std::vector<Curve> curves;
  for (const json& point : batch_tokens) {
    sizes.push_back(html_count(member(point, "batch_tokens")));
    const json& policies = member(member(point, "totals"), "policies");
    curves.resize(std::max(curves.size(), policies.size()));
    for (std::size_t i = 0; i < policies.size(); ++i) {
      curves[i].name = member(policies[i], "policy").get<std::string>();
      curves[i].fractions.push_back(fraction(policies[i], "padding_fraction"));
    }
  }
  if (sizes.empty()) return "";
  return curve_chart(sizes, without_repeats(curves), "tokens of a batch",
                     "Padding of each policy by batch size");
}

std::string capacity_chart(const json& curve) {
  std::vector<std::string> factors;
  std::vector<Curve> curves{{"padding", {}}, {"dropped rows", {}}};
  for (const json& point : member(curve, "points")) {
    factors.push_back(fmt::format("{:.4g}", fraction(point, "factor")));
    curves[0].fractions.push_back(fraction(point, "padding_fraction"));
    curves[1].fractions.push_back(fraction(point, "dropped_fraction"));
  }
  if (factors.empty()) return "";
  return curve_chart(factors, curves, "capacity factor", "Padding and dropped rows by capacity factor");
}

}  // namespace dropless
