// By name, then by being the only candidate; otherwise the names are listed and nothing is guessed.
#include "traces/choose_array.hpp"

#include <algorithm>

#include "dropless/error.hpp"
#include "traces/known_names.hpp"
#include "traces/line_reader.hpp"

namespace dropless::traces {
namespace {

template <class Fits>
std::vector<std::size_t> those(const std::vector<NamedArray>& arrays, Fits fits) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    if (fits(arrays[i])) found.push_back(i);
  return found;
}

}  // namespace

std::size_t choose_array(const std::vector<NamedArray>& arrays, const std::string& path) {
  if (arrays.empty()) throw FileError(path, "", "holds no arrays");
  const auto named = those(
      arrays, [](const NamedArray& array) { return names_ids(array.name) || names_counts(array.name); });
  if (named.size() == 1) return named[0];
  if (arrays.size() == 1) return 0;
  const auto integers = those(arrays, [](const NamedArray& array) { return array.integers; });
  if (named.empty() && integers.size() == 1) return integers[0];
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(arrays.size(), 6); ++i)
    names += (i > 0 ? ", " : "") + in_quotes(arrays[i].name);
  throw FileError(path, "",
                  "several arrays could be the trace (" + names + (arrays.size() > 6 ? ", ...)" : ")") +
                      "; save the one with expert ids or counts by itself");
}

}  // namespace dropless::traces
