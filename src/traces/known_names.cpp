// The known names in one sentence part.
#include "traces/known_names.hpp"

#include <fmt/format.h>

namespace dropless::traces {

std::string known_names_text() {
  return fmt::format("ids under {}, or counts under {}", fmt::join(ids_names, ", "),
                     fmt::join(counts_names, ", "));
}

}  // namespace dropless::traces
