// Parsing of axes and layer ranges; every refusal names the option and quotes what was typed.
#include "trace_arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>

#include "above_zero.hpp"

namespace {

using dropless::Error;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

std::vector<dropless::Axis> axes_from(const std::string& text) {
  std::vector<dropless::Axis> axes;
  for (const std::string& word : split(text, ',')) axes.push_back(dropless::axis_from_name(word));
  return axes;
}

std::int64_t layer_from(const std::string& word, const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || value < 0 || value >= 1 << 20)
    throw Error("--layers", "'" + text + "'", "layer numbers and ranges below 2^20, such as 0,4-7");
  return value;
}

std::vector<std::int64_t> layers_from(const std::string& text) {
  std::vector<std::int64_t> layers;
  for (const std::string& word : split(text, ',')) {
    const std::size_t dash = word.find('-');
    const std::int64_t first = layer_from(word.substr(0, dash), text);
    const std::int64_t last = dash == std::string::npos ? first : layer_from(word.substr(dash + 1), text);
    if (last < first) throw Error("--layers", "'" + text + "'", "ranges that do not run backwards");
    for (std::int64_t layer = first; layer <= last; ++layer) layers.push_back(layer);
  }
  return layers;
}

}  // namespace

TraceArguments::TraceArguments(CLI::App& command) {
  const auto add = [&](const char* names, auto& value, const char* help) {
    return command.add_option(names, value, help)->group("How to read the trace");
  };
  add("--format", options_.format, "npy, npz, safetensors, json, jsonl or csv, instead of detecting it");
  add("--axes", axes_,
      "An array's axes, outermost first: layer, step, sequence, position, token, slot, expert, rank");
  add("--batch", batch_, "Axes that index a batch, or none: a layer is one batch");
  add("--batch-tokens", batch_sizes_,
      "Cut a layer's tokens into batches of this many; report takes a list: 1,16,64")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(above_zero);
  add("--experts", options_.experts, "Experts of a layer")->check(above_zero);
  add("--top-k", options_.top_k, "Experts a token chooses")->check(above_zero);
  add("--layers", layers_, "Layers to read: 0,4-7");
  command.add_flag("--drop-warmup", options_.drop_warmup, "Leave out the identical rows a layer starts with")
      ->group("How to read the trace");
  command
      .add_flag("--batched", options_.batched,
                "Counts are those of single batches although they look cumulative")
      ->group("How to read the trace");
}

dropless::TraceOptions TraceArguments::parsed() const {
  dropless::TraceOptions result = options_;
  if (!axes_.empty()) result.axes = axes_from(axes_);
  if (!batch_.empty()) {
    result.batch_axes_given = true;
    if (batch_ != "none") result.batch_axes = axes_from(batch_);
  }
  if (!layers_.empty()) result.layers = layers_from(layers_);
  return result;
}

std::unique_ptr<dropless::Trace> TraceArguments::open(
    const std::string& path, const std::optional<dropless::ModelShape>& model) const {
  if (batch_sizes_.size() > 1)
    throw Error("--batch-tokens", "a list of " + std::to_string(batch_sizes_.size()), "one size here");
  return open(path, model, batch_sizes_.empty() ? 0 : batch_sizes_[0]);
}

std::unique_ptr<dropless::Trace> TraceArguments::open(const std::string& path,
                                                      const std::optional<dropless::ModelShape>& model,
                                                      std::int64_t batch_tokens) const {
  dropless::TraceOptions options = parsed();
  options.batch_tokens = batch_tokens;
  std::unique_ptr<dropless::Trace> trace = dropless::open_trace(path, options);
  if (!model) return trace;
  const dropless::TraceInfo& info = trace->info();
  const bool takes_experts = info.experts_inferred && model->experts >= info.experts;
  const bool takes_top_k = info.top_k == 0 && model->top_k > 0;
  if (!takes_experts && !takes_top_k) return trace;
  if (takes_experts) options.experts = model->experts;
  if (takes_top_k) options.top_k = model->top_k;
  return dropless::open_trace(path, options);
}
