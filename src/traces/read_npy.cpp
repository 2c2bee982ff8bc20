// .npy: one array, streamed from the file.
#include <fmt/format.h>

#include "traces/array_trace.hpp"
#include "traces/npy_header.hpp"
#include "traces/readers.hpp"

namespace dropless::traces {

std::unique_ptr<Trace> open_npy(const FilePointer& file, const TraceOptions& options) {
  ArrayOrigin origin;
  origin.path = file->path();
  origin.format = "npy";
  std::int64_t trailing_bytes = 0;
  ArraySpec array = read_npy_header(file, file->path(), "", trailing_bytes);
  if (trailing_bytes > 0)
    origin.assumptions.push_back(fmt::format("{} bytes after the array were ignored.", trailing_bytes));
  return open_array_trace(std::move(array), std::move(origin), options);
}

}  // namespace dropless::traces
