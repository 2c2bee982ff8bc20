// Opening a trace of whatever format.
#include "dropless/trace.hpp"

#include <filesystem>

#include "traces/readers.hpp"

namespace dropless {
namespace {

void check(const TraceOptions& options) {
  const auto not_negative = [](const char* name, std::int64_t value) {
    if (value < 0) throw Error(name, std::to_string(value), "0 (not stated) or more");
  };
  not_negative("experts", options.experts);
  not_negative("top_k", options.top_k);
  not_negative("batch_tokens", options.batch_tokens);
}

}  // namespace

std::unique_ptr<Trace> open_trace(const std::string& path, const TraceOptions& options) {
  using namespace traces;
  check(options);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_folder(path, options);
  const auto file = std::make_shared<FileBytes>(path);
  if (file->size() == 0) throw FileError(path, "", "an empty file");
  const std::string format = options.format.empty() ? detect_format(*file) : options.format;
  if (format == "npy") return open_npy(file, options);
  if (format == "npz") return open_npz(file, options);
  if (format == "json") return open_json(file, options);
  if (format == "safetensors" && !holds_iteration_counts(file)) return open_safetensors(file, options);
  const auto parse = format == "jsonl"         ? parse_jsonl
                     : format == "csv"         ? parse_csv
                     : format == "safetensors" ? parse_iteration_counts
                                               : nullptr;
  if (parse == nullptr) throw Error("format", format, "npy, npz, safetensors, json, jsonl or csv");
  ParsedLog parsed = parse(file, options);
  return open_log_trace(std::move(parsed.log), std::move(parsed.info), options);
}

}  // namespace dropless
