// The keys and columns of a log that nothing was read from, so that a name we do not know does not pass for a
// record without it.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dropless::traces {

/// Each name once, in the order in which they were met; a few of them, for a log may use a key a record.
class UnreadNames {
 public:
  void add(std::string_view name);
  bool empty() const { return names_.empty(); }
  /// "'token', 'gate'", with "and others" where there were too many to keep.
  std::string text() const;

 private:
  static constexpr std::size_t most_names = 16;

  std::vector<std::string> names_;
  bool more_ = false;
};

}  // namespace dropless::traces
