// Lines out of a buffer that grows to the longest of them.
#include "traces/line_reader.hpp"

#include <algorithm>
#include <cstring>

#include "dropless/error.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t piece_bytes = 256 << 10;
constexpr std::size_t longest_line = std::size_t{64} << 20;

}  // namespace

void LineReader::fill() {
  std::copy(buffer_.data() + begin_, buffer_.data() + end_, buffer_.data());
  end_ -= begin_;
  begin_ = 0;
  const std::int64_t some = std::min(std::max<std::int64_t>(piece_bytes, static_cast<std::int64_t>(end_)),
                                     file_->size() - file_at_);
  buffer_.resize(std::max(buffer_.size(), end_ + static_cast<std::size_t>(some + padding)));
  file_->read(file_at_, buffer_.data() + end_, some);
  if (file_at_ == 0 &&
      std::string_view(buffer_.data(), static_cast<std::size_t>(some)).substr(0, byte_order_mark.size()) ==
          byte_order_mark)
    begin_ = byte_order_mark.size();
  file_at_ += some;
  end_ += static_cast<std::size_t>(some);
}

bool LineReader::next(std::string_view& line) {
  std::size_t searched = 0;
  while (true) {
    const char* from = buffer_.data() + begin_;
    const void* found =
        end_ - begin_ > searched ? std::memchr(from + searched, '\n', end_ - begin_ - searched) : nullptr;
    const bool last = file_at_ == file_->size();
    if (found == nullptr && !last) {
      searched = end_ - begin_;
      if (searched > longest_line)
        throw FileError(file_->path(), "line " + std::to_string(number_ + 1), "longer than 64 MiB");
      fill();
      continue;
    }
    if (found == nullptr && begin_ == end_) return false;
    const std::size_t length =
        found ? static_cast<std::size_t>(static_cast<const char*>(found) - from) : end_ - begin_;
    line = {from, length};
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    begin_ += length + (found ? 1 : 0);
    ++number_;
    return true;
  }
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text.substr(0, 40)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > 40 ? "...'" : "'");
}

}  // namespace dropless::traces
