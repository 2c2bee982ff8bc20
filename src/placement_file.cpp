// Placements as JSON documents.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "dropless/placement.hpp"
#include "json_file.hpp"

namespace dropless {
namespace {

constexpr const char* map_key = "physical_to_logical_map";

std::vector<std::int64_t> read_layer(const JsonValue& layer, std::int64_t experts) {
  std::vector<std::int64_t> slots;
  std::vector<bool> placed(static_cast<std::size_t>(experts));
  for (const JsonValue& slot : layer.elements()) {
    const std::int64_t expert = slot.whole_number();
    if (expert < 0 || expert >= experts)
      slot.refuse("is expert " + std::to_string(expert) + ", but the trace has experts 0 to " +
                  std::to_string(experts - 1));
    placed[static_cast<std::size_t>(expert)] = true;
    slots.push_back(expert);
  }
  const auto missing = std::find(placed.begin(), placed.end(), false);
  if (missing != placed.end())
    layer.refuse("has no slot for expert " + std::to_string(missing - placed.begin()));
  return slots;
}

}  // namespace

Placement read_placement(const std::string& path, std::int64_t experts) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    throw FileError(path, "", "cannot be opened (placements by name are contiguous, strided, balanced)");
  const nlohmann::json document = read_json_file(path);
  const JsonValue file(path, "", document);
  Placement placement;
  for (const JsonValue& layer : file.at(map_key).elements()) {
    placement.physical_to_logical.push_back(read_layer(layer, experts));
    const std::size_t slots = placement.physical_to_logical.back().size();
    const std::size_t first = placement.physical_to_logical.front().size();
    if (slots != first)
      layer.refuse("has " + std::to_string(slots) + " slots, but the first layer has " +
                   std::to_string(first));
  }
  if (file.has("layers")) {
    const JsonValue layers = file.at("layers");
    for (const JsonValue& layer : layers.elements()) placement.layers.push_back(layer.whole_number());
    if (placement.layers.size() != placement.physical_to_logical.size())
      layers.refuse("names " + std::to_string(placement.layers.size()) + " layers, but " + map_key + " has " +
                    std::to_string(placement.physical_to_logical.size()));
  }
  if (file.has("ranks")) {
    const JsonValue ranks = file.at("ranks");
    placement.ranks = ranks.whole_number();
    if (placement.ranks < 1 || placement.ranks > experts)
      ranks.refuse("is " + std::to_string(placement.ranks) + ", but there are " + std::to_string(experts) +
                   " experts");
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
