// The readers of each container. A reader takes an opened file and gives a trace, or throws FileError.
#pragma once
#include <memory>
#include <string>

#include "dropless/trace.hpp"
#include "traces/byte_source.hpp"

namespace dropless::traces {

using FilePointer = std::shared_ptr<const FileBytes>;

std::unique_ptr<Trace> open_npy(FilePointer file, const TraceOptions& options);

}  // namespace dropless::traces
