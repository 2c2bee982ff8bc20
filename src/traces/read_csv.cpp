// CSV: SGLang's counts (layer_id,expert_id,count; zero rows omitted) or one token a row
// (layer_id,expert_ids).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "traces/array_trace.hpp"
#include "traces/line_reader.hpp"
#include "traces/log_builder.hpp"
#include "traces/readers.hpp"

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
      counts_kind_ ? read_count() : read_token();
    }
    if (counts_kind_) add_counts();
    return {builder_.finish(), std::move(info_)};
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const {
    throw FileError(info_.path, lines_.place(), reason);
  }

  void read_header() {
    std::string_view line;
    if (!lines_.next(line)) throw FileError(info_.path, "", "an empty file");
    split(line, fields_);
    columns_ = fields_.size();
    const auto column = [&](const char* name) {
      return std::find(fields_.begin(), fields_.end(), name) - fields_.begin();
    };
    const auto missing = static_cast<std::ptrdiff_t>(columns_);
    layer_ = column("layer_id");
    ids_ = column("expert_ids");
    expert_ = column("expert_id");
    count_ = column("count");
    counts_kind_ = expert_ != missing && count_ != missing;
    if (layer_ == missing || (!counts_kind_ && ids_ == missing))
      refuse("the header is neither layer_id,expert_id,count nor layer_id,expert_ids but " + in_quotes(line));
    if (counts_kind_) {
      info_.format = "csv (rows per expert)";
      info_.cumulative = true;
      info_.assumptions = {"Experts that the file does not name have no rows."};
    } else {
      info_.format = "csv (one token a row)";
      if (options_.batch_tokens == 0 && !options_.batch_axes_given)
        info_.assumptions = {
            "The file has no batch boundaries: everything in a layer was taken as one batch."};
    }
  }

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

  std::int64_t layer() const {
    const std::int64_t value = number(fields_[static_cast<std::size_t>(layer_)], "layer");
    if (value < 0) refuse(fmt::format("the layer {} is negative", value));
    return value;
  }

  void read_count() {
    const std::int64_t of_layer = layer();
    const std::int64_t expert = number(fields_[static_cast<std::size_t>(expert_)], "expert id");
    const std::int64_t count = number(fields_[static_cast<std::size_t>(count_)], "whole count");
    if (expert < 0 || expert >= most_experts)
      refuse(fmt::format("expert id {}; ids from 0 to below {} are believed", expert, most_experts));
    if (count < 0) refuse(fmt::format("the count {} is negative", count));
    if (count > most_rows) refuse(fmt::format("the count {} is more than 2^53", count));
    if (!builder_.wants(of_layer)) return;
    std::vector<std::int64_t>& rows = counts_[of_layer];
    if (rows.size() <= static_cast<std::size_t>(expert)) rows.resize(static_cast<std::size_t>(expert) + 1, 0);
    std::int64_t& sum = rows[static_cast<std::size_t>(expert)];
    sum = std::min(sum + count, most_rows + 1);  // too many, which BatchLog refuses
  }

  void add_counts() {
    std::size_t experts = static_cast<std::size_t>(std::max<std::int64_t>(0, options_.experts));
    for (const auto& [layer_number, rows] : counts_) experts = std::max(experts, rows.size());
    for (auto& [layer_number, rows] : counts_) {
      rows.resize(experts, 0);
      LogRecord record;
      record.layer = layer_number;
      record.numbers = rows.data();
      record.columns = static_cast<std::int64_t>(experts);
      record.counts = true;
      builder_.add(record, [&] { return fmt::format("layer {}", record.layer); });
    }
  }

  void read_token() {
    const std::int64_t of_layer = layer();
    if (!builder_.wants(of_layer)) return;
    ids_of_token_.clear();
    std::string_view text = trimmed(fields_[static_cast<std::size_t>(ids_)]);
    if (text.size() > 1 && text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
    while (!text.empty()) {
      const std::size_t end = std::min(text.find_first_of(" ,;"), text.size());
      if (end > 0) ids_of_token_.push_back(number(text.substr(0, end), expert_id_of_cell));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    LogRecord record;
    record.layer = of_layer;
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
  std::ptrdiff_t layer_ = 0, ids_ = 0, expert_ = 0, count_ = 0;
  bool counts_kind_ = false;
  std::map<std::int64_t, std::vector<std::int64_t>> counts_;  // by layer and expert
  std::vector<std::int64_t> ids_of_token_;
};

}  // namespace

ParsedLog parse_csv(const FilePointer& file, const TraceOptions& options) {
  ParsedLog parsed = CsvLog(file, options).parse();
  parsed.log.experts_complete = false;  // experts without rows are left out
  return parsed;
}

}  // namespace dropless::traces
