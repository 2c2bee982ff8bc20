// The JSON header of a safetensors file, with every offset checked against the file.
#include "traces/safetensors_header.hpp"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "dropless/error.hpp"
#include "traces/line_reader.hpp"

namespace dropless::traces {
namespace {

using nlohmann::json;
using NumberKind = NumberFormat::Kind;

constexpr std::int64_t longest_safetensors_header = 16 << 20;
constexpr int deepest_header = 4;

const std::map<std::string, NumberFormat>& integer_types() {
  static const std::map<std::string, NumberFormat> types = {
      {"I8", {NumberKind::signed_integer, 1}},    {"I16", {NumberKind::signed_integer, 2}},
      {"I32", {NumberKind::signed_integer, 4}},   {"I64", {NumberKind::signed_integer, 8}},
      {"U8", {NumberKind::unsigned_integer, 1}},  {"U16", {NumberKind::unsigned_integer, 2}},
      {"U32", {NumberKind::unsigned_integer, 4}}, {"U64", {NumberKind::unsigned_integer, 8}},
  };
  return types;
}

class Header {
 public:
  explicit Header(std::shared_ptr<const FileBytes> file) : file_(std::move(file)) {}

  std::vector<Tensor> parse() {
    std::uint64_t length = 0;
    if (file_->size() < 8) refuse("the file ends within it");
    file_->read(0, &length, 8);
    if (length > static_cast<std::uint64_t>(file_->size()) - 8) refuse("the file ends within it");
    if (length > static_cast<std::uint64_t>(longest_safetensors_header)) refuse("larger than 16 MiB");
    std::string text(static_cast<std::size_t>(length), '\0');
    file_->read(8, text.data(), static_cast<std::int64_t>(length));
    body_ = 8 + static_cast<std::int64_t>(length);
    const auto limit_depth = [&](int depth, json::parse_event_t, json&) {
      if (depth > deepest_header) refuse("nested too deeply");
      return true;
    };
    json document;
    try {
      document = json::parse(text, limit_depth);
    } catch (const json::parse_error& error) {
      refuse(fmt::format("not valid JSON at byte {}", error.byte));
    } catch (const json::exception&) {
      refuse("JSON with a number that no type holds");
    }
    if (!document.is_object()) refuse("not a JSON object");
    std::vector<Tensor> tensors;
    for (const auto& [name, value] : document.items())
      if (name != "__metadata__") tensors.push_back(tensor(name, value));
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& reason, const std::string& tensor = "") const {
    throw FileError(file_->path(), tensor.empty() ? "safetensors header" : "tensor " + in_quotes(tensor),
                    reason);
  }

  std::vector<std::int64_t> extents(const json& value, const std::string& name, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end() || !found->is_array() || found->size() > 32)
      refuse(fmt::format("{} is missing or no short array", key), name);
    std::vector<std::int64_t> numbers;
    for (const json& number : *found) {
      if (!number.is_number_integer() ||
          (number.is_number_unsigned() && number.get<std::uint64_t>() >> 63 != 0) ||
          number.get<std::int64_t>() < 0)
        refuse(fmt::format("{} holds something other than whole numbers below 2^63", key), name);
      numbers.push_back(number.get<std::int64_t>());
    }
    return numbers;
  }

  Tensor tensor(const std::string& name, const json& value) const {
    if (!value.is_object() || !value.contains("dtype") || !value["dtype"].is_string())
      refuse("dtype is missing", name);
    Tensor tensor;
    tensor.name = name;
    tensor.type = value["dtype"].get<std::string>();
    tensor.array.shape = extents(value, name, "shape");
    const std::vector<std::int64_t> offsets = extents(value, name, "data_offsets");
    const std::int64_t body_bytes = file_->size() - body_;
    if (offsets.size() != 2 || offsets[0] > offsets[1] || offsets[1] > body_bytes)
      refuse(fmt::format("data_offsets are no range within the {} bytes that follow the header", body_bytes),
             name);
    const auto known = integer_types().find(tensor.type);
    tensor.integers = known != integer_types().end();
    if (!tensor.integers) return tensor;
    tensor.array.number = known->second;
    const std::int64_t bytes = checked_size(tensor.array.shape, tensor.array.number.bytes, file_->path(),
                                            "tensor " + in_quotes(name)) *
                               tensor.array.number.bytes;
    if (bytes != offsets[1] - offsets[0])
      refuse(fmt::format("the shape {} of {} needs {} bytes, but data_offsets give {}",
                         shape_text(tensor.array.shape), tensor.type, bytes, offsets[1] - offsets[0]),
             name);
    tensor.array.offset = body_ + offsets[0];
    tensor.array.bytes = file_;
    return tensor;
  }

  std::shared_ptr<const FileBytes> file_;
  std::int64_t body_ = 0;
};

}  // namespace

std::vector<Tensor> read_safetensors_header(const std::shared_ptr<const FileBytes>& file) {
  return Header(file).parse();
}

}  // namespace dropless::traces
