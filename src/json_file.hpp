// A JSON file read whole, and its values with the place where they stand: whatever is refused says file,
// place and reason.
#pragma once
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "dropless/error.hpp"

namespace dropless {

/// The document of a file. `Json` is nlohmann::json, or ordered_json to keep the order of keys.
template <class Json = nlohmann::json>
Json read_json_file(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw FileError(path, "", "is a folder");
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(path, "", "cannot be opened");
  try {
    return Json::parse(file);
  } catch (const typename Json::parse_error& error) {
    throw FileError(path, "byte " + std::to_string(error.byte), "is not JSON");
  } catch (const typename Json::exception&) {
    throw FileError(path, "", "is JSON with a number that no type holds");
  }
}

/// One value of a document, which outlives it.
class JsonValue {
 public:
  JsonValue(std::string path, std::string place, const nlohmann::json& value)
      : path_(std::move(path)), place_(std::move(place)), value_(&value) {}

  [[noreturn]] void refuse(const std::string& reason) const { throw FileError(path_, place_, reason); }

  bool has(const char* key) const { return value_->is_object() && value_->contains(key); }
  JsonValue at(const char* key) const {
    if (!value_->is_object()) refuse("is no JSON object");
    const std::string place = place_.empty() ? key : place_ + "." + key;
    if (!has(key)) throw FileError(path_, place, "is missing");
    return {path_, place, value_->at(key)};
  }
  /// Those of a list; one without any is refused too.
  std::vector<JsonValue> elements() const {
    if (!value_->is_array() || value_->empty()) refuse("is no list with elements");
    std::vector<JsonValue> all;
    for (const nlohmann::json& element : *value_)
      all.emplace_back(path_, place_ + "[" + std::to_string(all.size()) + "]", element);
    return all;
  }
  std::string text() const {
    if (!value_->is_string()) refuse("is no text");
    return value_->get<std::string>();
  }
  std::int64_t whole_number() const {
    const bool fits = value_->is_number_integer() &&
                      (!value_->is_number_unsigned() || value_->get<std::uint64_t>() <= INT64_MAX);
    if (!fits) refuse("is no whole number");
    return value_->get<std::int64_t>();
  }
  std::int64_t whole_number(std::int64_t least, std::int64_t most) const {
    const std::int64_t number = whole_number();
    if (number < least || number > most)
      refuse("is " + std::to_string(number) + "; expected " + std::to_string(least) + ".." +
             std::to_string(most));
    return number;
  }
  double number_above_zero() const {
    if (!value_->is_number() || !(value_->get<double>() > 0)) refuse("is no number above zero");
    return value_->get<double>();
  }
  /// What `from_name` makes of a text; the Error that it throws for an unknown one gets its place.
  template <class FromName>
  auto named(const FromName& from_name) const {
    try {
      return from_name(text());
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      refuse("is " + error.value() + "; expected " + error.expectation());
    }
  }

 private:
  std::string path_, place_;
  const nlohmann::json* value_;
};

}  // namespace dropless
