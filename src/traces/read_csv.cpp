// CSV: SGLang's counts (layer_id,expert_id,count; zero rows omitted) or one token a row
// (layer_id,expert_ids), each with a step column that bounds its batches or without one.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "traces/array_trace.hpp"
#include "traces/known_names.hpp"
#include "traces/line_reader.hpp"
#include "traces/log_builder.hpp"
#include "traces/readers.hpp"
#include "traces/unread_names.hpp"

namespace dropless::traces {
namespace {

constexpr const char* expert_id_of_cell =
    "expert id (a cell has its ids between spaces, commas or semicolons, in square brackets or not)";

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// The fields of a line; a field in double quotes may hold commas.
void split(std::string_view line, std::vector<std::string_view>& fields) {
  fields.clear();
  while (true) {
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    std::size_t end = line.find(',');
    if (!line.empty() && line[0] == '"') {
      const std::size_t quote = line.find('"', 1);
      fields.push_back(line.substr(1, quote == std::string_view::npos ? quote : quote - 1));
      end = quote == std::string_view::npos ? quote : line.find(',', quote);
    } else {
      fields.push_back(trimmed(line.substr(0, end)));
    }
    if (end == std::string_view::npos) return;
    line.remove_prefix(end + 1);
  }
}

/// A column's name as it is compared: whatever the case, quotes and blanks around it left out.
std::string column_name(std::string_view field) {
  std::string name(trimmed(field));
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

class CsvLog {
 public:
  CsvLog(const FilePointer& file, const TraceOptions& options)
      : lines_(file), options_(options), builder_(file->path(), options) {
    info_.path = file->path();
    if (!options.axes.empty()) throw Error("axes", "given", "none, for CSV, whose columns have names");
  }

  ParsedLog parse() {
    read_header();
    std::string_view line;
    while (lines_.next(line)) {
      if (trimmed(line).empty()) continue;
      split(line, fields_);
      if (fields_.size() != columns_)
        refuse(
            fmt::format("{} fields under a header of {}{}", fields_.size(), columns_,
                        fields_.size() > columns_ ? " (a field with commas stands in double quotes)" : ""));
      read_row();
    }
    if (counts_kind_)
      for (auto& [number, layer] : layers_) add_counts(number, layer);
    if (repeated_rows_ > 0)
      info_.warnings.push_back(fmt::format(
          "{} {} a {}layer and expert that an earlier row names: their counts were summed", repeated_rows_,
          repeated_rows_ == 1 ? "row names" : "rows name", step_ ? "step, " : ""));
    return {builder_.finish(), std::move(info_)};
  }

 private:
  /// What is kept of a layer until its step ends: its rows come in any order, but step after step.
  struct Layer {
    bool started = false;
    std::int64_t step = 0;
    std::vector<std::int64_t> counts;  // by expert; -1: not named yet
  };

  [[noreturn]] void refuse(const std::string& reason) const {
    throw FileError(info_.path, lines_.place(), reason);
  }

  void read_header() {
    std::string_view line;
    if (!lines_.next(line)) throw FileError(info_.path, "", "an empty file");
    split(line, fields_);
    columns_ = fields_.size();
    UnreadNames not_read;
    for (std::size_t column = 0; column < columns_; ++column) {
      const std::string name = column_name(fields_[column]);
      std::optional<std::size_t>* known = names_layer(name)      ? &layer_
                                          : names_step(name)     ? &step_
                                          : name == "expert_id"  ? &expert_
                                          : name == "count"      ? &count_
                                          : name == "expert_ids" ? &ids_
                                                                 : nullptr;
      if (known == nullptr) {
        not_read.add(name);
        continue;
      }
      if (known->has_value())
        refuse(fmt::format("the columns {} and {} name the same", in_quotes(fields_[**known]),
                           in_quotes(fields_[column])));
      *known = column;
    }
    counts_kind_ = expert_ && count_;
    if (!layer_ || (!counts_kind_ && !ids_))
      refuse(
          "the header is neither layer_id,expert_id,count nor layer_id,expert_ids (with step or not) but " +
          in_quotes(line));
    if (counts_kind_ && ids_) refuse("the header has columns of counts and of expert ids");
    if (!counts_kind_)
      for (const auto& column : {expert_, count_})
        if (column) not_read.add(column_name(fields_[*column]));
    describe(not_read);
  }

  void describe(const UnreadNames& not_read) {
    const bool own_batches = options_.batch_tokens == 0 && !options_.batch_axes_given;
    info_.format = counts_kind_ ? "csv (rows per expert)" : "csv (one token a row)";
    if (counts_kind_) {
      info_.cumulative = !step_;
      info_.assumptions.push_back("Experts that the file does not name have no rows.");
    }
    if (step_ && own_batches) info_.assumptions.push_back("Each step of a layer was taken as one batch.");
    if (!step_ && own_batches && !counts_kind_)
      info_.assumptions.push_back(
          "The file has no batch boundaries: everything in a layer was taken as one batch.");
    if (!not_read.empty()) info_.assumptions.push_back("Columns not read: " + not_read.text() + ".");
  }

  std::string_view field(std::optional<std::size_t> column) const { return fields_[*column]; }

  std::int64_t number(std::string_view text, const char* what) const {
    text = trimmed(text);
    std::int64_t value = 0;
    const char* end = text.data() + text.size();
    if (const auto [at, error] = std::from_chars(text.data(), end, value); error == std::errc() && at == end)
      return value;
    double fraction = 0;
    const auto [at, error] = std::from_chars(text.data(), end, fraction);
    if (error != std::errc() || at != end || !(std::abs(fraction) < 9.2e18) ||
        fraction != std::trunc(fraction))
      refuse(fmt::format("{} is no {}", in_quotes(text), what));
    return static_cast<std::int64_t>(fraction);
  }

  void read_row() {
    const std::int64_t layer_number = number(field(layer_), "layer");
    if (layer_number < 0) refuse(fmt::format("the layer {} is negative", layer_number));
    const std::int64_t step = step_ ? number(field(step_), "step") : 0;
    if (step < 0) refuse(fmt::format("the step {} is negative", step));
    if (counts_kind_) read_count();
    if (!builder_.wants(layer_number)) return;
    if (last_layer_ == nullptr || last_layer_number_ != layer_number) {
      last_layer_ = &layers_[layer_number];
      last_layer_number_ = layer_number;
    }
    Layer& layer = *last_layer_;
    const bool next_step = layer.started && step != layer.step;
    if (next_step) {
      if (step < layer.step)
        refuse(fmt::format("step {} of layer {} after its step {}; steps are read in ascending order", step,
                           layer_number, layer.step));
      if (counts_kind_) add_counts(layer_number, layer);
      builder_.end_batch(layer_number);
    }
    layer.started = true;
    layer.step = step;
    counts_kind_ ? keep_count(layer) : add_token(layer_number, step);
  }

  void read_count() {
    row_expert_ = number(field(expert_), "expert id");
    row_count_ = number(field(count_), "whole count");
    if (row_expert_ < 0 || row_expert_ >= most_experts)
      refuse(fmt::format("expert id {}; ids from 0 to below {} are believed", row_expert_, most_experts));
    if (row_count_ < 0) refuse(fmt::format("the count {} is negative", row_count_));
    if (row_count_ > most_rows) refuse(fmt::format("the count {} is more than 2^53", row_count_));
  }

  void keep_count(Layer& layer) {
    const auto expert = static_cast<std::size_t>(row_expert_);
    if (layer.counts.size() <= expert) layer.counts.resize(expert + 1, -1);
    std::int64_t& sum = layer.counts[expert];
    repeated_rows_ += sum >= 0;
    sum = std::min(std::max<std::int64_t>(sum, 0) + row_count_,
                   most_rows + 1);  // too many, which BatchLog refuses
  }

  /// Hands the layer's step on.
  void add_counts(std::int64_t layer_number, Layer& layer) {
    for (std::int64_t& count : layer.counts) count = std::max<std::int64_t>(count, 0);
    LogRecord record;
    record.layer = layer_number;
    record.step = layer.step;
    record.numbers = layer.counts.data();
    record.columns = static_cast<std::int64_t>(layer.counts.size());
    record.counts = true;
    record.counts_end_early = true;  // experts without rows are left out
    builder_.add(record, [&] { return fmt::format("layer {}", layer_number); });
    layer.counts.clear();
  }

  void add_token(std::int64_t layer_number, std::int64_t step) {
    ids_of_token_.clear();
    std::string_view text = trimmed(field(ids_));
    if (text.size() > 1 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(" ,;"), text.size());
      if (end > 0) ids_of_token_.push_back(number(text.substr(0, end), expert_id_of_cell));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    LogRecord record;
    record.layer = layer_number;
    record.step = step;
    record.numbers = ids_of_token_.data();
    record.columns = static_cast<std::int64_t>(ids_of_token_.size());
    builder_.add(record, [&] { return lines_.place(); });
  }

  LineReader lines_;
  const TraceOptions& options_;
  LogBuilder builder_;
  TraceInfo info_;
  std::vector<std::string_view> fields_;
  std::size_t columns_ = 0;
  std::optional<std::size_t> step_, layer_, ids_, expert_, count_;  // which columns they are
  bool counts_kind_ = false;
  std::map<std::int64_t, Layer> layers_;
  Layer* last_layer_ = nullptr;
  std::int64_t last_layer_number_ = 0;
  std::int64_t row_expert_ = 0, row_count_ = 0;  // of the row that is being read
  std::int64_t repeated_rows_ = 0;
  std::vector<std::int64_t> ids_of_token_;
};

}  // namespace

ParsedLog parse_csv(const FilePointer& file, const TraceOptions& options) {
  return CsvLog(file, options).parse();
}

}  // namespace dropless::traces
