// Which of a container's named arrays is the trace.
#pragma once
#include <string>
#include <vector>

namespace dropless::traces {

struct NamedArray {
  std::string name;
  bool integers = false;
};

/// Index of the array whose name says that it holds routing, else of the only one, else of the only one of
/// integers. Throws FileError, with the names, where none of these is one.
std::size_t choose_array(const std::vector<NamedArray>& arrays, const std::string& path);

}  // namespace dropless::traces
