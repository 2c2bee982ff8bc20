// What each axis of an array counts: its layers, its batches, the tokens within one, and the row that holds a
// token's expert ids or a batch's counts.
#pragma once
#include <string>
#include <vector>

#include "dropless/trace.hpp"
#include "traces/array_trace.hpp"

namespace dropless::traces {

struct AxisPlan {
  std::vector<Axis> axes;   ///< outermost first, one for each extent of the shape
  int layer = -1;           ///< position of the layer axis, or -1
  int row = -1;             ///< position of the slot or expert axis, or -1: one id a token
  bool counts = false;      ///< rows are counts per expert, not expert ids
  std::vector<int> batch;   ///< positions of the axes that index a batch, outermost first
  std::vector<int> within;  ///< positions of the axes summed within a batch, outermost first
};

/// Names the axes of `shape` as the options say or by the defaults, and notes what was assumed. Throws Error
/// where the options do not fit the shape, FileError where they are needed.
AxisPlan plan_axes(const std::vector<std::int64_t>& shape, const TraceOptions& options,
                   const ArrayOrigin& origin, std::vector<std::string>& assumptions);

/// The note that these are a guess at the axes `of` an array.
std::string assumed_axes(const std::string& of, const std::vector<Axis>& axes);

/// "layer,sequence,position,slot"
std::string axes_text(const std::vector<Axis>& axes);

}  // namespace dropless::traces
