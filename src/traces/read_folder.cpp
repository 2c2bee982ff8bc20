// A folder of per-rank files: each rank's log is read, and the same batches of all ranks are summed.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "traces/readers.hpp"

namespace dropless::traces {
namespace {

namespace fs = std::filesystem;

bool has(const std::string& name, const std::string& start, const std::string& end) {
  return name.size() >= start.size() + end.size() && name.compare(0, start.size(), start) == 0 &&
         name.compare(name.size() - end.size(), end.size(), end) == 0;
}

/// A producer's per-rank files.
struct Producer {
  const char* start;
  const char* end;
  const char* format;
  const char* name;
  ParsedLog (*parse)(const FilePointer&, const TraceOptions&);
};

constexpr Producer producers[] = {
    {"rank", ".safetensors", "safetensors", "TensorRT-LLM expert statistic", parse_iteration_counts},
    {"router_trace_rank", ".jsonl", "jsonl", "Megatron router trace", parse_jsonl},
    {"", ".csv", "csv", "rows per expert", parse_csv},
    {"", ".jsonl", "jsonl", "logs", parse_jsonl},
};

bool is_rank_of(const Producer& producer, const std::string& name) {
  return has(name, producer.start, producer.end) && name.find("_raw") == std::string::npos;
}

}  // namespace

bool may_be_ranks_file(const std::string& name) {
  return std::any_of(std::begin(producers), std::end(producers),
                     [&](const Producer& producer) { return is_rank_of(producer, name); });
}

std::unique_ptr<Trace> open_folder(const std::string& path, const TraceOptions& options) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator entries(path, error);
  if (error) throw FileError(path, "", error.message());
  for (const fs::directory_entry& entry : entries) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());

  for (const Producer& producer : producers) {
    if (!options.format.empty() && options.format != producer.format) continue;
    std::vector<ParsedLog> ranks;
    for (const std::string& name : names) {
      if (!is_rank_of(producer, name)) continue;
      const auto file = std::make_shared<FileBytes>((fs::path(path) / name).string());
      if (file->size() == 0) throw FileError(file->path(), "", "an empty file");
      ranks.push_back(producer.parse(file, options));
    }
    if (ranks.empty()) continue;
    if (options.batch_tokens > 0)
      throw Error(
          "batch_tokens", std::to_string(options.batch_tokens),
          "no cutting by tokens in a folder, where a batch's tokens are spread over the ranks' files");
    std::vector<BatchLog> logs;
    logs.reserve(ranks.size());
    TraceInfo info = ranks.front().info;
    for (ParsedLog& rank : ranks) {
      logs.push_back(std::move(rank.log));
      for (const std::string& warning : rank.info.warnings)
        if (std::find(info.warnings.begin(), info.warnings.end(), warning) == info.warnings.end())
          info.warnings.push_back(warning);
      if (rank.info.experts == 0) continue;
      if (info.experts > 0 && rank.info.experts != info.experts)
        throw FileError(rank.info.path, "",
                        fmt::format("num_experts is {}, but {} in the ranks' files before it",
                                    rank.info.experts, info.experts));
      info.experts = rank.info.experts;
    }
    for (const BatchLog& log : logs)
      if (log.counts != logs.front().counts || log.top_k != logs.front().top_k)
        throw FileError(path, "", "the ranks' files hold different kinds of records, or different top_k");
    info.path = path;
    info.format = fmt::format("folder of {} ({})", producer.format, producer.name);
    RankSum sum = sum_ranks(path, logs);
    if (logs.size() > 1)
      info.assumptions.push_back(
          sum.summed_batches > 0
              ? fmt::format("The same step and layer of {} ranks' files were summed into one batch.",
                            logs.size())
              : fmt::format("No two of the {} ranks' files have a step and layer in common.", logs.size()));
    if (sum.incomplete_batches > 0)
      info.warnings.push_back(
          fmt::format("{} of {} batches lack some rank's share: not every rank's file has a "
                      "record of that step and layer",
                      sum.incomplete_batches, sum.batches));
    return open_log_trace(std::move(sum.log), std::move(info), options);
  }
  throw FileError(path, "",
                  "a folder without per-rank files (rank*.safetensors, router_trace_rank*.jsonl, *.jsonl, "
                  "*.csv); name a file");
}

}  // namespace dropless::traces
