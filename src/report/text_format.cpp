// Number formats that keep columns narrow.
#include "report/text_format.hpp"

#include <fmt/format.h>

#include <array>

namespace dropless {
namespace {

std::string scaled(double value, const char* unit) {
  constexpr std::array<const char*, 7> prefixes{"", "k", "M", "G", "T", "P", "E"};
  std::size_t prefix = 0;
  while (value >= 999.95 && prefix + 1 < prefixes.size()) {
    value /= 1000;
    ++prefix;
  }
  return fmt::format("{:.{}f} {}{}", value, prefix == 0 ? 0 : 1, prefixes[prefix], unit);
}

}  // namespace

std::string grouped(std::int64_t count) {
  if (count >= 10'000'000'000) return fmt::format("{:.3e}", static_cast<double>(count));
  const std::string digits = std::to_string(count);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string counted(std::int64_t count, const std::string& thing) {
  const char* plural = count == 1 ? "" : thing.back() == 'h' ? "es" : "s";
  return grouped(count) + ' ' + thing + plural;
}

std::string percent(double fraction) { return fmt::format("{:.1f}", 100 * fraction); }

std::string byte_count(double bytes) { return scaled(bytes, "B"); }

std::string flop_count(double flops) { return scaled(flops, "FLOP"); }

std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = 0, begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t length = end - begin;
    if (column > indent && column + 1 + length > text_width) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (begin > 0) {
      out += ' ';
      ++column;
    }
    out.append(text, begin, length);
    column += length;
    begin = end + 1;
  }
  return out;
}

}  // namespace dropless
