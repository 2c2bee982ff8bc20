// Escaping and number formats of the HTML page.
#include "report/html_text.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace dropless {
namespace {

constexpr const char* absent = "–";

/// Three significant digits under the largest of `units` (steps of 1000) that leaves at least 1.
std::string with_unit(double value, const std::array<const char*, 7>& units) {
  std::size_t unit = 0;
  while (std::abs(value) >= 999.5 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.3g}{}", value, units[unit]);
}

}  // namespace

std::string html_escape(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

const nlohmann::ordered_json& member(const nlohmann::ordered_json& object, const char* name) {
  static const nlohmann::ordered_json null;
  if (!object.is_object()) return null;
  const auto found = object.find(name);
  return found == object.end() ? null : *found;
}

std::string html_words(const nlohmann::ordered_json& object, const char* name) {
  const nlohmann::ordered_json& value = member(object, name);
  return value.is_string() ? html_escape(value.get<std::string>()) : "";
}

std::string html_count(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return absent;
  if (!value.is_number_integer()) {
    const double number = value.get<double>();
    const bool whole = number == std::floor(number) && std::abs(number) < 1e15;
    return whole ? html_count(static_cast<std::int64_t>(number)) : html_decimal(value);
  }
  const std::string digits = value.dump();
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = !grouped.empty() && grouped != "-";
    if (after_digit && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string html_decimal(const nlohmann::ordered_json& value) {
  return value.is_number() ? fmt::format("{:.2f}", value.get<double>()) : absent;
}

std::string html_percent(const nlohmann::ordered_json& value) {
  return value.is_number() ? fmt::format("{:.1f} %", 100 * value.get<double>()) : absent;
}

std::string html_bytes(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return absent;
  return with_unit(value.get<double>(), {" B", " kB", " MB", " GB", " TB", " PB", " EB"});
}

std::string html_flops(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return absent;
  return with_unit(value.get<double>(),
                   {" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP", " PFLOP", " EFLOP"});
}

std::string html_short_count(const nlohmann::ordered_json& value) {
  if (!value.is_number()) return absent;
  return with_unit(value.get<double>(), {"", "k", "M", "G", "T", "P", "E"});
}

}  // namespace dropless
