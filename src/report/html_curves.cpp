// Curves over a few values of a knob, each value as far from the next: of fractions, and of times on a
// logarithmic scale.
#include "report/html_curves.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "report/html_text.hpp"
#include "report/svg_plot.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

struct Curve {
  std::string name;
  std::vector<double> values;
};

/// The y axis: where a value lies, in [0, 1], what it is called, and the values with a line across.
struct Scale {
  double (*unit)(double value) = [](double value) { return value; };  // in which the axis is even
  double least = 0, most = 1;                                         // in that unit
  std::string (*label)(const json& value) = html_percent;
  std::vector<std::pair<double, std::string>> lines;

  double share(double value) const { return (unit(value) - least) / (most - least); }
};

Scale fractions() {
  Scale scale;
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0})
    scale.lines.emplace_back(share, fmt::format("{:.0f} %", share * 100));
  return scale;
}

std::string microseconds(const json& value) { return fmt::format("{:.4g} us", value.get<double>()); }

/// Whole powers of ten around all values, which are above zero.
Scale decades(const std::vector<Curve>& curves) {
  Scale scale;
  scale.unit = [](double value) { return std::log10(value); };
  scale.label = microseconds;
  double least = curves.front().values.front(), most = least;
  for (const Curve& curve : curves)
    for (const double value : curve.values) {
      least = std::min(least, value);
      most = std::max(most, value);
    }
  scale.least = std::floor(std::log10(least));
  scale.most = std::max(std::ceil(std::log10(most)), scale.least + 1);
  for (double power = scale.least; power <= scale.most; ++power)
    scale.lines.emplace_back(std::pow(10, power), microseconds(std::pow(10, power)));
  return scale;
}

/// How curve `i` of `curves` is drawn: hues evenly apart, every second one dashed.
std::string pen(std::size_t i, std::size_t curves) {
  return fmt::format("class=\"curve{}\" style=\"stroke:hsl({} 65% 48%)\"", i % 2 == 1 ? " dashed" : "",
                     (210 + 360 * i / curves) % 360);
}

/// Policies of the same values share a curve, which bears all their names.
std::vector<Curve> without_repeats(const std::vector<Curve>& curves) {
  std::vector<Curve> distinct;
  for (const Curve& curve : curves) {
    const auto same = std::find_if(distinct.begin(), distinct.end(),
                                   [&](const Curve& one) { return one.values == curve.values; });
    if (same == distinct.end())
      distinct.push_back(curve);
    else
      same->name += ", " + curve.name;
  }
  return distinct;
}

std::string curve_chart(const std::vector<std::string>& knob, const std::vector<Curve>& curves,
                        const Scale& scale, const std::string& knob_label, const std::string& label) {
  const Plot plot;
  const auto x_of = [&](std::size_t i) {
    return plot.x((static_cast<double>(i) + 0.5) / static_cast<double>(knob.size()));
  };
  std::string svg = open_svg(Plot::width, Plot::height, label), legend;
  for (const auto& [value, text] : scale.lines) svg += plot.gridline(scale.share(value), text);
  const std::size_t every = (knob.size() + 8) / 9;
  for (std::size_t i = 0; i < knob.size(); i += every)
    svg += svg_text(x_of(i), Plot::bottom + 16, "middle", knob[i]);
  for (std::size_t c = 0; c < curves.size(); ++c) {
    const std::string style = pen(c, curves.size()), name = html_escape(curves[c].name);
    std::string points, marks;
    for (std::size_t i = 0; i < curves[c].values.size(); ++i) {
      const double y = plot.y(scale.share(curves[c].values[i]));
      points += fmt::format("{:.1f},{:.1f} ", x_of(i), y);
      marks +=
          fmt::format("<circle {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"><title>{}, {}: {}</title></circle>",
                      style, x_of(i), y, name, html_escape(knob[i]), scale.label(curves[c].values[i]));
    }
    svg += fmt::format("<polyline {} points=\"{}\"/>{}", style, points, marks);
    legend += fmt::format(
        "<li><svg class=\"key\" viewBox=\"0 0 24 8\"><polyline {} points=\"0,4 24,4\"/></svg>{}</li>", style,
        name);
  }
  return svg + svg_text((Plot::left + Plot::right) / 2, Plot::height - 8, "middle", knob_label) +
         "</svg><ul class=\"legend\">" + legend + "</ul>";
}

double number(const json& object, const char* name) {
  const json& value = member(object, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::vector<std::string> sizes_of(const json& batch_tokens) {
  std::vector<std::string> sizes;
  for (const json& point : batch_tokens) sizes.push_back(html_count(member(point, "batch_tokens")));
  return sizes;
}

/// A curve for each policy: `value_of` its totals and the policy's figures, at each size.
template <class ValueOf>
std::vector<Curve> curves_of(const json& batch_tokens, ValueOf value_of) {
  std::vector<Curve> curves;
  for (const json& point : batch_tokens) {
    const json& totals = member(point, "totals");
    const json& policies = member(totals, "policies");
    curves.resize(std::max(curves.size(), policies.size()));
    for (std::size_t i = 0; i < policies.size(); ++i) {
      curves[i].name = member(policies[i], "policy").get<std::string>();
      curves[i].values.push_back(value_of(totals, policies[i]));
    }
  }
  return curves;
}

}  // namespace

std::string batch_padding_chart(const json& batch_tokens) {
  const std::vector<Curve> curves = curves_of(
      batch_tokens, [](const json&, const json& policy) { return number(policy, "padding_fraction"); });
  if (curves.empty()) return "";
  return curve_chart(sizes_of(batch_tokens), without_repeats(curves), fractions(), "tokens of a batch",
                     "Padding of each policy by batch size");
}

std::string batch_time_chart(const json& batch_tokens) {
  std::vector<Curve> curves = curves_of(batch_tokens, [](const json& totals, const json& policy) {
    const double batches = number(totals, "batches_with_rows");
    return batches > 0 ? number(policy, "time_us") / batches : 0;
  });
  // A policy that drops all rows of small batches takes no time, which no logarithm shows.
  curves.erase(std::remove_if(curves.begin(), curves.end(),
                              [](const Curve& curve) {
                                return *std::min_element(curve.values.begin(), curve.values.end()) <= 0;
                              }),
               curves.end());
  if (curves.empty()) return "";
  return curve_chart(sizes_of(batch_tokens), without_repeats(curves), decades(curves), "tokens of a batch",
                     "Modelled time of a batch under each policy by batch size");
}

std::string capacity_chart(const json& curve) {
  std::vector<std::string> factors;
  std::vector<Curve> curves{{"padding", {}}, {"dropped rows", {}}};
  for (const json& point : member(curve, "points")) {
    factors.push_back(fmt::format("{:.4g}", number(point, "factor")));
    curves[0].values.push_back(number(point, "padding_fraction"));
    curves[1].values.push_back(number(point, "dropped_fraction"));
  }
  if (factors.empty()) return "";
  return curve_chart(factors, curves, fractions(), "capacity factor",
                     "Padding and dropped rows by capacity factor");
}

}  // namespace dropless
