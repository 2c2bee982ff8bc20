// Text for HTML: escaping, and numbers as people read them. JSON null, or a value of another kind, is a dash.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace dropless {

/// `text` with the five characters that HTML gives a meaning replaced.
std::string html_escape(const std::string& text);

/// The member of that name, or null where `object` is no object or lacks it.
const nlohmann::ordered_json& member(const nlohmann::ordered_json& object, const char* name);

/// That member's text, escaped; empty where it is no text.
std::string html_words(const nlohmann::ordered_json& object, const char* name);

std::string html_count(const nlohmann::ordered_json& value);        ///< 1,048,576
std::string html_decimal(const nlohmann::ordered_json& value);      ///< two decimals
std::string html_percent(const nlohmann::ordered_json& value);      ///< a fraction as 49.0 %
std::string html_bytes(const nlohmann::ordered_json& value);        ///< 3.15 MB, in powers of 1000
std::string html_flops(const nlohmann::ordered_json& value);        ///< 1.23 TFLOP
std::string html_short_count(const nlohmann::ordered_json& value);  ///< 16, 4.1k, 2.5M: for axes

}  // namespace dropless
