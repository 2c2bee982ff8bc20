// The lines of a text file, one after the other, through a buffer of bounded size.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "traces/byte_source.hpp"

namespace dropless::traces {

class LineReader {
 public:
  /// Bytes after the end of a line that may be read (they mean nothing); what a vectorised parser wants.
  static constexpr std::int64_t padding = 64;

  explicit LineReader(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}

  /// The next line without its end ("\n" or "\r\n"), or false at the end of the file; a byte order mark in
  /// front of the first is skipped. The view is valid until the next call. Throws FileError for a line longer
  /// than 64 MiB.
  bool next(std::string_view& line);
  /// "line 3" for the line that next() gave last.
  std::string place() const { return "line " + std::to_string(number_); }
  std::int64_t number() const { return number_; }

 private:
  void fill();

  std::shared_ptr<const FileBytes> file_;
  std::int64_t file_at_ = 0;  // where in the file the buffer's end stands
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // the unread part of the buffer
  std::int64_t number_ = 0;
};

/// A byte order mark of UTF-8, which some programs put in front of text.
inline constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

/// File content as it may stand in a message: at most 40 characters, what does not print replaced.
std::string in_quotes(std::string_view text);

}  // namespace dropless::traces
