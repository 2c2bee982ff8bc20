// JSON: one document that is an array of numbers, or an object that has one under a known key. It is parsed
// as a stream of events, so that only the numbers are kept.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "traces/array_trace.hpp"
#include "traces/axis_plan.hpp"
#include "traces/known_names.hpp"
#include "traces/readers.hpp"
#include "traces/unread_names.hpp"

namespace dropless::traces {
namespace {

using nlohmann::json;

constexpr std::size_t most_dimensions = 8;
constexpr int deepest_document = 256;

/// Nested arrays of numbers as they are read: their shape, and the numbers in order.
class NestedNumbers {
 public:
  explicit NestedNumbers(std::string path)
      : path_(std::move(path)), bytes_(std::make_shared<SpilledBytes>(path_)) {}

  /// The key that the array stands under, or empty.
  void start(std::string key) { key_ = std::move(key); }
  bool inside() const { return !index_.empty(); }

  void open() {
    if (index_.size() == most_dimensions)
      refuse(fmt::format("nested deeper than {} arrays", most_dimensions));
    if (leaf_depth_ == index_.size() && leaf_depth_ > 0) refuse("arrays beside numbers");
    index_.push_back(0);
    if (shape_.size() < index_.size()) shape_.push_back(-1);
  }
  void number(std::int64_t value) {
    if (leaf_depth_ == 0 && shape_.size() == index_.size()) leaf_depth_ = index_.size();
    if (leaf_depth_ != index_.size()) refuse("numbers beside arrays");
    bytes_->append(&value, sizeof value);
    ++index_.back();
  }
  void close() {
    const std::size_t level = index_.size() - 1;
    const std::int64_t length = index_.back();
    std::int64_t& extent = shape_[level];
    index_.pop_back();
    if (extent >= 0 && extent != length)
      refuse(fmt::format("ragged: {} elements after arrays of {}", length, extent));
    extent = length;
    if (inside()) ++index_.back();
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    std::string place = key_;
    for (const std::int64_t index : index_) place += fmt::format("[{}]", index);
    throw FileError(path_, place, reason);
  }

  const std::string& key() const { return key_; }
  bool found() const { return !shape_.empty(); }
  ArraySpec array() const {
    ArraySpec array;
    array.bytes = bytes_;
    array.number = {NumberFormat::Kind::signed_integer, 8};
    array.shape = shape_;
    for (std::int64_t& extent : array.shape) extent = std::max<std::int64_t>(extent, 0);
    return array;
  }

 private:
  std::string path_;
  std::string key_;
  std::shared_ptr<SpilledBytes> bytes_;
  std::vector<std::int64_t> index_;  // of the element that is being read, by level
  std::vector<std::int64_t> shape_;
  std::size_t leaf_depth_ = 0;  // levels above the numbers, once one was seen
};

class DocumentEvents : public nlohmann::json_sax<json> {
 public:
  explicit DocumentEvents(const std::string& path) : path_(path), numbers_(path) {}

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool string(string_t&) override { return other("a string"); }
  bool binary(binary_t&) override { return other("binary data"); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value >> 63 == 0) return number(static_cast<std::int64_t>(value));
    if (numbers_.inside()) numbers_.refuse(fmt::format("{} is 2^63 or more", value));
    return true;
  }
  bool number_float(number_float_t value, const string_t&) override {
    const bool whole = std::abs(value) < 9.2e18 && value == std::trunc(value);
    if (numbers_.inside() && !whole) numbers_.refuse(fmt::format("{} is no whole number", value));
    return !whole || number(static_cast<std::int64_t>(value));
  }
  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    key_ = name;
    if (!names_counts(key_) && !names_ids(key_) && key_ != "num_experts" && !names_top_k())
      not_read.add(key_);
    return true;
  }
  bool start_object(std::size_t) override {
    if (numbers_.inside()) numbers_.refuse("an object where numbers are expected");
    return deeper();
  }
  bool end_object() override { return shallower(); }
  bool start_array(std::size_t) override {
    const bool plain = depth_ == 0;
    const bool named = depth_ == 1 && in_object_ && (names_counts(key_) || names_ids(key_));
    if (plain || named) {
      if (numbers_.found())
        throw FileError(path_, key_, "a second array of ids or counts, beside " + numbers_.key());
      numbers_.start(named ? key_ : "");
    }
    if (plain || named || numbers_.inside()) numbers_.open();
    return deeper();
  }
  bool end_array() override {
    if (numbers_.inside()) numbers_.close();
    return shallower();
  }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    throw FileError(path_, fmt::format("byte {}", byte), "not valid JSON");
  }

  const NestedNumbers& numbers() const { return numbers_; }
  std::int64_t experts = 0, top_k = 0;
  UnreadNames not_read;

 private:
  bool deeper() {
    if (depth_ == 0) in_object_ = !numbers_.inside();
    if (++depth_ > deepest_document)
      throw FileError(path_, "", fmt::format("nested deeper than {} levels", deepest_document));
    return true;
  }
  bool shallower() {
    --depth_;
    return true;
  }
  bool number(std::int64_t value) {
    if (numbers_.inside()) numbers_.number(value);
    if (depth_ == 1 && in_object_ && value > 0) {
      if (key_ == "num_experts") experts = value;
      if (names_top_k()) top_k = value;
    }
    return true;
  }
  bool other(const char* what) {
    const bool of_the_model = depth_ == 1 && in_object_ && (key_ == "num_experts" || names_top_k());
    if (!numbers_.inside() && !of_the_model) return true;
    const std::string reason = fmt::format("{} where a number is expected", what);
    if (of_the_model) throw FileError(path_, key_, reason);
    numbers_.refuse(reason);
  }
  bool names_top_k() const { return key_ == "top_k" || key_ == "topk"; }

  const std::string& path_;
  NestedNumbers numbers_;
  std::string key_;
  int depth_ = 0;
  bool in_object_ = false;
};

/// The characters of a file, for the parser.
class Characters {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  class Buffer {
   public:
    explicit Buffer(const FileBytes& file) : file_(file) { fill(); }
    bool ended() const { return at_ == size_ && file_at_ == file_.size(); }
    const char& here() const { return bytes_[at_]; }
    void advance() {
      if (++at_ == size_ && file_at_ < file_.size()) fill();
    }

   private:
    void fill() {
      const std::int64_t some =
          std::min<std::int64_t>(static_cast<std::int64_t>(bytes_.size()), file_.size() - file_at_);
      file_.read(file_at_, bytes_.data(), some);
      file_at_ += some;
      size_ = static_cast<std::size_t>(some);
      at_ = 0;
    }
    const FileBytes& file_;
    std::int64_t file_at_ = 0;
    std::vector<char> bytes_ = std::vector<char>(64 << 10);
    std::size_t at_ = 0, size_ = 0;
  };

  /// Without a buffer: the end.
  explicit Characters(Buffer* buffer = nullptr) : buffer_(buffer) {}
  reference operator*() const { return buffer_->here(); }
  Characters& operator++() {
    buffer_->advance();
    return *this;
  }
  bool operator==(const Characters& other) const { return ended() == other.ended(); }
  bool operator!=(const Characters& other) const { return !(*this == other); }

 private:
  bool ended() const { return buffer_ == nullptr || buffer_->ended(); }
  Buffer* buffer_;
};

/// Axes of counts under a key, by their number of dimensions.
std::vector<Axis> counts_axes(std::size_t dimensions) {
  switch (dimensions) {
    case 1:
      return {Axis::expert};
    case 2:
      return {Axis::layer, Axis::expert};
    case 3:
      return {Axis::step, Axis::layer, Axis::expert};
    default:
      return {};
  }
}

}  // namespace

std::unique_ptr<Trace> open_json(const FilePointer& file, const TraceOptions& options) {
  DocumentEvents events(file->path());
  Characters::Buffer buffer(*file);
  json::sax_parse(Characters(&buffer), Characters(), &events);
  const NestedNumbers& numbers = events.numbers();
  if (!numbers.found())
    throw FileError(file->path(), "", "neither an array of numbers nor an object with " + known_names_text());
  ArrayOrigin origin;
  origin.path = file->path();
  origin.format = numbers.key().empty() ? "json" : "json (" + numbers.key() + ")";
  origin.place = numbers.key();
  origin.experts = events.experts;
  origin.top_k = events.top_k;
  origin.cumulative = numbers.key() == "logical_count";
  ArraySpec array = numbers.array();
  TraceOptions with_axes = options;
  if (with_axes.axes.empty() && names_counts(numbers.key())) {
    with_axes.axes = counts_axes(array.shape.size());
    if (!with_axes.axes.empty())
      origin.assumptions.push_back(
          assumed_axes(numbers.key() + " " + shape_text(array.shape), with_axes.axes));
  }
  if (!events.not_read.empty())
    origin.assumptions.push_back("Keys not read: " + events.not_read.text() + ".");
  const auto step = std::find(with_axes.axes.begin(), with_axes.axes.end(), Axis::step);
  if (numbers.key() == "logical_count" && step != with_axes.axes.end())
    origin.assumptions.push_back(
        "The steps of logical_count are a circular buffer: their order need not be that of time.");
  return open_array_trace(std::move(array), std::move(origin), with_axes);
}

}  // namespace dropless::traces
