// An array that was opened as a trace, and one reading of it.
#pragma once
#include <string>
#include <vector>

#include "dropless/trace.hpp"
#include "traces/array_trace.hpp"
#include "traces/array_units.hpp"

namespace dropless::traces {

struct OpenedArray {
  ArrayOrigin origin;
  TraceInfo info;
  BatchedArray array;
  bool drop_warmup = false;

  /// Throws FileError that names the element at `index`.
  [[noreturn]] void refuse(const std::vector<std::int64_t>& index, const std::string& reason) const;
};

/// Trace::read of an array.
std::vector<LayerFacts> read_array(const OpenedArray& opened, BatchSink& sink, int workers, Progress progress,
                                   void* context);

}  // namespace dropless::traces
