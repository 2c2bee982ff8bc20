// The readers of each container. A reader takes an opened file and gives a trace, or throws FileError.
#pragma once
#include <memory>
#include <string>

#include "dropless/trace.hpp"
#include "traces/batch_log.hpp"
#include "traces/byte_source.hpp"

namespace dropless::traces {

using FilePointer = std::shared_ptr<const FileBytes>;

/// A log read through, and what it says of itself. Ranks' logs are summed before a trace is made of them.
struct ParsedLog {
  BatchLog log;
  TraceInfo info;
};

std::unique_ptr<Trace> open_npy(const FilePointer& file, const TraceOptions& options);
std::unique_ptr<Trace> open_npz(const FilePointer& file, const TraceOptions& options);
std::unique_ptr<Trace> open_safetensors(const FilePointer& file, const TraceOptions& options);
std::unique_ptr<Trace> open_json(const FilePointer& file, const TraceOptions& options);
ParsedLog parse_jsonl(const FilePointer& file, const TraceOptions& options);
ParsedLog parse_csv(const FilePointer& file, const TraceOptions& options);

/// TensorRT-LLM's expert statistic: counts named "iteration_layer".
bool holds_iteration_counts(const FilePointer& file);
ParsedLog parse_iteration_counts(const FilePointer& file, const TraceOptions& options);

/// A folder of per-rank files: JSON lines, CSV counts, or TensorRT-LLM's expert statistic.
std::unique_ptr<Trace> open_folder(const std::string& path, const TraceOptions& options);
/// Whether open_folder() may read a file of that name.
bool may_be_ranks_file(const std::string& name);

/// The format of a file from its first bytes, or from its extension where they do not say. Throws FileError
/// for what is no trace, pickles among it.
std::string detect_format(const FileBytes& file);

}  // namespace dropless::traces
