// A report on the way from a trace's batches to its figures, for whoever reads the trace: one report, or
// several at once.
#pragma once
#include <vector>

#include "dropless/report.hpp"
#include "report/rank_placements.hpp"
#include "report/trace_sums.hpp"

namespace dropless {

class ReportReading {
 public:
  /// Throws Error where an option is refused. Both arguments outlive this object.
  ReportReading(const TraceInfo& trace, const ReportOptions& options);

  int workers() const { return workers_; }
  /// What the trace is to be read into, with workers().
  BatchSink& sink() { return sink_; }
  /// Once the trace is read, which gave `facts`. Placements on ranks read it again.
  Report finish(Trace& trace, const std::vector<LayerFacts>& facts, Progress progress, void* context);

 private:
  const ReportOptions& options_;
  int workers_;
  ReportPlan plan_;
  TraceSums gathered_;
  RankPlacements placements_;
  BatchSink& sink_;
};

}  // namespace dropless
