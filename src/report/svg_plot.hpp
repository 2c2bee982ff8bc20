// What the page's charts share: a plot area with its grid, text, and the opening of a picture.
#pragma once
#include <string>

namespace dropless {

/// A plot area of a 380 wide chart with a y axis of fractions or counts.
struct Plot {
  static constexpr int width = 380, height = 250;
  static constexpr double left = 52, right = 372, top = 20, bottom = 200;

  double x(double share) const { return left + share * (right - left); }
  double y(double share) const { return bottom - share * (bottom - top); }

  /// A line across the plot at `share` of its height.
  std::string gridline(double share, const std::string& label) const;
};

/// Text at a point; `anchor` is start, middle or end. Escapes `content`.
std::string svg_text(double x, double y, const char* anchor, const std::string& content);

/// The opening tag of a picture that `label` describes.
std::string open_svg(int width, int height, const std::string& label);

}  // namespace dropless
