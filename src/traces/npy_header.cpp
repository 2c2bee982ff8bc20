// The Python dictionary that a .npy header is, parsed strictly.
#include "traces/npy_header.hpp"

#include <cctype>
#include <cstring>
#include <optional>

#include "dropless/error.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t longest_header = 1 << 20;

/// Reads the Python dictionary literal that a header is: strings, booleans and tuples of integers.
class HeaderText {
 public:
  HeaderText(std::string text, const std::string& path, std::string place)
      : text_(std::move(text)), path_(path), place_(std::move(place)) {}

  ArraySpec parse() {
    ArraySpec array;
    bool have_type = false, have_order = false, have_shape = false;
    expect('{');
    while (!accept('}')) {
      const std::string key = string();
      expect(':');
      if (key == "descr") {
        if (peek() != '\'' && peek() != '"') refuse("a structured type; one plain number type is needed");
        array.number = number_format(string());
        have_type = true;
      } else if (key == "fortran_order") {
        array.fortran_order = boolean();
        have_order = true;
      } else if (key == "shape") {
        array.shape = tuple();
        have_shape = true;
      } else {
        refuse("the key '" + printable(key) + "' is not one of descr, fortran_order and shape");
      }
      if (!accept(',') && peek() != '}') refuse("a comma or '}' is missing");
    }
    if (!have_type || !have_order || !have_shape) refuse("descr, fortran_order or shape is missing");
    return array;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { throw FileError(path_, place_, reason); }

  static std::string printable(const std::string& text) {
    std::string out;
    for (const char c : text.substr(0, 40)) out += std::isprint(static_cast<unsigned char>(c)) ? c : '?';
    return out;
  }

  char peek() {
    while (at_ < text_.size() && std::strchr(" \t\n\r", text_[at_]) != nullptr && text_[at_] != '\0') ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || c == '\0') return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) refuse(std::string("'") + c + "' is missing");
  }

  std::string string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("a quoted string is missing");
    const std::size_t end = text_.find(quote, ++at_);
    if (end == std::string::npos) refuse("a string does not end");
    std::string value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    peek();
    for (const bool value : {false, true}) {
      const std::string word = value ? "True" : "False";
      if (text_.compare(at_, word.size(), word) == 0) {
        at_ += word.size();
        return value;
      }
    }
    refuse("fortran_order is neither True nor False");
  }

  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    while (!accept(')')) {
      values.push_back(integer());
      if (!accept(',') && peek() != ')') refuse("the shape is not a tuple of integers");
      if (values.size() > 32) refuse("the shape has more than 32 extents");
    }
    return values;
  }

  std::int64_t integer() {
    if (std::isdigit(static_cast<unsigned char>(peek())) == 0) refuse("the shape is not a tuple of integers");
    std::int64_t value = 0;
    for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; ++at_) {
      const int digit = text_[at_] - '0';
      if (value > (INT64_MAX - digit) / 10) refuse("an extent of the shape passes 2^63");
      value = value * 10 + digit;
    }
    accept('L');  // Python 2 wrote long integers so
    return value;
  }

  NumberFormat number_format(const std::string& type) const {
    NumberFormat format;
    const char order = type.size() == 3 ? type[0] : '\0';
    const char kind = type.size() == 3 ? type[1] : '\0';
    format.bytes = type.size() == 3 ? type[2] - '0' : 0;
    format.swapped = order == '>';
    const bool known_order = order == '<' || order == '>' || order == '|' || order == '=';
    const bool power = format.bytes == 2 || format.bytes == 4 || format.bytes == 8;
    if (kind == 'i')
      format.kind = NumberFormat::Kind::signed_integer;
    else if (kind == 'u')
      format.kind = NumberFormat::Kind::unsigned_integer;
    else
      format.kind = NumberFormat::Kind::floating;
    const bool known_kind =
        kind == 'f' ? power : (kind == 'i' || kind == 'u') && (power || format.bytes == 1);
    if (!known_order || !known_kind)
      refuse("numbers of type '" + printable(type) +
             "'; integers of 1 to 8 bytes or floats of 2 to 8 are read");
    return format;
  }

  std::string text_;
  const std::string& path_;
  std::string place_;
  std::size_t at_ = 0;
};

}  // namespace

ArraySpec read_npy_header(std::shared_ptr<const ByteSource> bytes, const std::string& path,
                          const std::string& place, std::int64_t& trailing_bytes) {
  const std::string header_place = place.empty() ? "npy header" : place + ": npy header";
  const auto refuse = [&](const std::string& reason) { throw FileError(path, header_place, reason); };
  unsigned char start[12] = {};
  const std::int64_t size = bytes->size();
  if (size < 10) refuse("the file ends within the header");
  bytes->read(0, start, std::min<std::int64_t>(size, 12));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0) refuse("does not begin with \\x93NUMPY");
  const int version = start[6];
  if (version < 1 || version > 3) refuse("version " + std::to_string(version) + "; versions 1 to 3 are read");
  const std::int64_t prefix = version == 1 ? 10 : 12;
  if (size < prefix) refuse("the file ends within the header");
  std::int64_t length = start[8] | start[9] << 8;
  if (version > 1) length |= std::int64_t{start[10]} << 16 | std::int64_t{start[11]} << 24;
  if (length > longest_header)
    refuse("a header of " + std::to_string(length) + " bytes; at most 1 MiB is read");
  if (length > size - prefix) refuse("the file ends within the header");
  std::string text(static_cast<std::size_t>(length), '\0');
  bytes->read(prefix, text.data(), length);

  ArraySpec array = HeaderText(std::move(text), path, header_place).parse();
  array.offset = prefix + length;
  const std::int64_t promised =
      checked_size(array.shape, array.number.bytes, path, header_place) * array.number.bytes;
  const std::int64_t present = size - array.offset;
  if (promised > present)
    throw FileError(path, place.empty() ? "npy body" : place + ": npy body",
                    "the shape " + shape_text(array.shape) + " needs " + std::to_string(promised) +
                        " bytes, but " + std::to_string(present) + " follow the header");
  trailing_bytes = present - promised;
  array.bytes = std::move(bytes);
  return array;
}

}  // namespace dropless::traces
