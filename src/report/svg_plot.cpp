// SVG elements in the units of the picture's view box.
#include "report/svg_plot.hpp"

#include <fmt/format.h>

#include "report/html_text.hpp"

namespace dropless {

std::string Plot::gridline(double share, const std::string& label) const {
  return fmt::format("<line class=\"rule\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>", left, right,
                     y(share), y(share)) +
         svg_text(left - 8, y(share) + 4, "end", label);
}

std::string svg_text(double x, double y, const char* anchor, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>", x, y, anchor,
                     html_escape(content));
}

std::string open_svg(int width, int height, const std::string& label) {
  return fmt::format("<svg{} viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">",
                     width > Plot::width ? " class=\"wide\"" : "", width, height, html_escape(label));
}

}  // namespace dropless
