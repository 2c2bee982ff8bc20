// The part of a report on expert-parallel placements: which ones are compared, the reads of the trace that
// fit and score them, and their figures.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "report/rank_sums.hpp"

namespace dropless {

class RankPlacements {
 public:
  /// Reads the placement file, where one is asked for. Throws Error or FileError for what options ask in
  /// vain.
  RankPlacements(const ReportOptions& options, const TraceInfo& trace);

  /// The sink of the report's own read: `next`, watched where halves of the batches will be needed.
  BatchSink& first_read(BatchSink& next, int workers);

  /// After the report's other figures are complete: reads the trace again to fit and to score, and adds the
  /// placements to the figures of ranks.
  void score(Report& report, Trace& trace, int workers, Progress progress, void* context);

 private:
  struct Candidate {
    std::string name;
    std::vector<std::vector<std::int64_t>> layers;  // [layers of the trace][slots]
  };

  std::vector<std::vector<std::int64_t>> read_file(const ReportOptions& options) const;
  /// Of every candidate, over `layers` layers.
  std::vector<PlacementFigures> figures(const RankBalanceSums& first, const RankBalanceSums& second,
                                        bool exact, std::int64_t layers) const;

  const ReportOptions& options_;
  std::int64_t experts_;
  std::vector<std::int64_t> layer_numbers_;
  LayerIndex layers_;
  bool balanced_ = false;
  std::vector<Candidate> candidates_;
  std::unique_ptr<BatchSpans> spans_;
};

}  // namespace dropless
