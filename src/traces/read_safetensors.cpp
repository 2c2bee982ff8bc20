// safetensors: one tensor of integers, or TensorRT-LLM's expert statistic, a tensor of counts for each
// iteration and layer.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "traces/array_trace.hpp"
#include "traces/choose_array.hpp"
#include "traces/line_reader.hpp"
#include "traces/log_builder.hpp"
#include "traces/readers.hpp"
#include "traces/safetensors_header.hpp"

namespace dropless::traces {
namespace {

struct IterationLayer {
  std::int64_t iteration = 0, layer = 0;
};

/// "12_3" is layer 3 in iteration 12.
std::optional<IterationLayer> iteration_layer(const std::string& name) {
  IterationLayer key;
  const char* end = name.data() + name.size();
  const auto [middle, error] = std::from_chars(name.data(), end, key.iteration);
  if (error != std::errc() || middle == end || *middle != '_') return std::nullopt;
  const auto [last, layer_error] = std::from_chars(middle + 1, end, key.layer);
  if (layer_error != std::errc() || last != end || key.iteration < 0 || key.layer < 0) return std::nullopt;
  return key;
}

}  // namespace

std::unique_ptr<Trace> open_safetensors(const FilePointer& file, const TraceOptions& options) {
  std::vector<Tensor> tensors = read_safetensors_header(file);
  std::vector<NamedArray> arrays;
  arrays.reserve(tensors.size());
  for (const Tensor& tensor : tensors) arrays.push_back({tensor.name, tensor.integers});
  Tensor& tensor = tensors.at(choose_array(arrays, file->path()));
  ArrayOrigin origin;
  origin.path = file->path();
  origin.format = "safetensors";
  origin.place = "tensor " + in_quotes(tensor.name);
  if (!tensor.integers)
    throw FileError(file->path(), origin.place,
                    "numbers of type " + in_quotes(tensor.type) + "; integers are read");
  return open_array_trace(std::move(tensor.array), std::move(origin), options);
}

bool holds_iteration_counts(const FilePointer& file) {
  const std::vector<Tensor> tensors = read_safetensors_header(file);
  return !tensors.empty() && std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return iteration_layer(tensor.name) && tensor.integers && tensor.array.shape.size() == 1;
  });
}

ParsedLog parse_iteration_counts(const FilePointer& file, const TraceOptions& options) {
  const std::vector<Tensor> tensors = read_safetensors_header(file);
  std::vector<std::tuple<std::int64_t, std::int64_t, const Tensor*>> ordered;
  for (const Tensor& tensor : tensors) {
    const auto key = iteration_layer(tensor.name);
    if (!key || !tensor.integers || tensor.array.shape.size() != 1)
      throw FileError(file->path(), "tensor " + in_quotes(tensor.name),
                      "no vector of whole counts named iteration_layer, as the others are");
    ordered.emplace_back(key->iteration, key->layer, &tensor);
  }
  std::sort(ordered.begin(), ordered.end());
  LogBuilder builder(file->path(), options);
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> counts;
  for (const auto& [iteration, layer, tensor] : ordered) {
    if (!builder.wants(layer)) continue;
    const auto place = [name = tensor->name] { return "tensor " + in_quotes(name); };
    const ArraySpec& array = tensor->array;
    const std::int64_t experts = array.shape[0];
    if (experts > most_experts)
      throw FileError(file->path(), place(),
                      fmt::format("{} counts; at most {} experts are believed", experts, most_experts));
    bytes.resize(static_cast<std::size_t>(experts * array.number.bytes));
    counts.resize(static_cast<std::size_t>(experts));
    array.bytes->read(array.offset, bytes.data(), static_cast<std::int64_t>(bytes.size()));
    if (read_integers(array.number, {bytes.data(), 1, 0, experts, 1}, counts.data()) >= 0)
      throw FileError(file->path(), place(), "a count of 2^63 or more");
    LogRecord record;
    record.layer = layer;
    record.step = iteration;
    record.numbers = counts.data();
    record.columns = experts;
    record.counts = true;
    builder.end_batch(layer);
    builder.add(record, place);
  }
  ParsedLog parsed{builder.finish(), {}};
  parsed.info.path = file->path();
  parsed.info.format = "safetensors (TensorRT-LLM expert statistic)";
  if (!options.batch_axes_given)
    parsed.info.assumptions.push_back("Each iteration of a layer was taken as one batch.");
  return parsed;
}

}  // namespace dropless::traces
