// Placements as JSON documents.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "dropless/error.hpp"
#include "dropless/placement.hpp"

namespace dropless {
namespace {

using nlohmann::json;
constexpr const char* map_key = "physical_to_logical_map";

/// A placement file's values, each refused with the place where it stands.
class PlacementFile {
 public:
  explicit PlacementFile(const std::string& path) : path_(path) {
    if (std::filesystem::is_directory(path)) refuse("", "is a folder");
    std::ifstream file(path, std::ios::binary);
    if (!file) refuse("", "cannot be opened (placements by name are contiguous, strided, balanced)");
    try {
      document_ = json::parse(file);
    } catch (const json::parse_error& error) {
      refuse("byte " + std::to_string(error.byte), "is not JSON");
    }
    if (!document_.is_object()) refuse("", "holds no JSON object");
  }

  [[noreturn]] void refuse(const std::string& place, const std::string& reason) const {
    throw FileError(path_, place, reason);
  }
  bool has(const char* key) const { return document_.contains(key); }
  const json& list(const json& value, const std::string& place) const {
    if (!value.is_array() || value.empty()) refuse(place, "is no list with elements");
    return value;
  }
  const json& list(const char* key) const {
    if (!has(key)) refuse(key, "is missing");
    return list(document_[key], key);
  }
  std::int64_t number(const json& value, const std::string& place) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<std::uint64_t>() <= std::uint64_t{1} << 62);
    if (!fits) refuse(place, "is no whole number");
    return value;
  }
  std::int64_t number(const char* key) const { return number(document_[key], key); }

 private:
  std::string path_;
  json document_;
};

std::string element(const std::string& list, std::size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

std::vector<std::int64_t> read_layer(const PlacementFile& file, const json& list, const std::string& place,
                                     std::int64_t experts) {
  std::vector<std::int64_t> slots;
  std::vector<bool> placed(static_cast<std::size_t>(experts));
  for (const json& value : file.list(list, place)) {
    const std::string slot = element(place, slots.size());
    const std::int64_t expert = file.number(value, slot);
    if (expert < 0 || expert >= experts)
      file.refuse(slot, "is expert " + std::to_string(expert) + ", but the trace has experts 0 to " +
                            std::to_string(experts - 1));
    placed[static_cast<std::size_t>(expert)] = true;
    slots.push_back(expert);
  }
  const auto missing = std::find(placed.begin(), placed.end(), false);
  if (missing != placed.end())
    file.refuse(place, "has no slot for expert " + std::to_string(missing - placed.begin()));
  return slots;
}

}  // namespace

Placement read_placement(const std::string& path, std::int64_t experts) {
  const PlacementFile file(path);
  Placement placement;
  for (const json& layer : file.list(map_key)) {
    const std::string place = element(map_key, placement.physical_to_logical.size());
    placement.physical_to_logical.push_back(read_layer(file, layer, place, experts));
    const std::size_t slots = placement.physical_to_logical.back().size();
    const std::size_t first = placement.physical_to_logical.front().size();
    if (slots != first)
      file.refuse(
          place, "has " + std::to_string(slots) + " slots, but the first layer has " + std::to_string(first));
  }
  if (file.has("layers")) {
    for (const json& layer : file.list("layers"))
      placement.layers.push_back(file.number(layer, element("layers", placement.layers.size())));
    if (placement.layers.size() != placement.physical_to_logical.size())
      file.refuse("layers", "names " + std::to_string(placement.layers.size()) + " layers, but " + map_key +
                                " has " + std::to_string(placement.physical_to_logical.size()));
  }
  if (file.has("ranks")) {
    placement.ranks = file.number("ranks");
    if (placement.ranks < 1 || placement.ranks > experts)
      file.refuse("ranks", "is " + std::to_string(placement.ranks) + ", but there are " +
                               std::to_string(experts) + " experts");
  }
  return placement;
}

std::string placement_json(const Placement& placement,
                           const std::vector<std::vector<std::int64_t>>& rows_per_expert) {
  const nlohmann::ordered_json document = {{"ranks", placement.ranks},
                                           {"layers", placement.layers},
                                           {map_key, placement.physical_to_logical},
                                           {"logical_count", rows_per_expert}};
  return document.dump() + "\n";
}

}  // namespace dropless
