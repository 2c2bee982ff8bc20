// Names are few, so a look through all of them is the quickest way to know whether one is new.
#include "traces/unread_names.hpp"

#include <algorithm>

#include "traces/line_reader.hpp"

namespace dropless::traces {

void UnreadNames::add(std::string_view name) {
  if (std::find(names_.begin(), names_.end(), name) != names_.end()) return;
  more_ |= names_.size() == most_names;
  if (!more_) names_.emplace_back(name);
}

std::string UnreadNames::text() const {
  std::string text;
  for (const std::string& name : names_) text += (text.empty() ? "" : ", ") + in_quotes(name);
  return text + (more_ ? " and others" : "");
}

}  // namespace dropless::traces
