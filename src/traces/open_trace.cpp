// Opening a trace of whatever format.
#include "dropless/trace.hpp"
#include "traces/readers.hpp"

namespace dropless {

std::unique_ptr<Trace> open_trace(const std::string& path, const TraceOptions& options) {
  return traces::open_npy(std::make_shared<traces::FileBytes>(path), options);
}

}  // namespace dropless
