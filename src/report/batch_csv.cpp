// One worker's batches to lines, gathered into pieces worth a write.
#include "report/batch_csv.hpp"

#include <fmt/format.h>

#include <iterator>
#include <unordered_set>

namespace dropless {
namespace {

class BatchLines : public BatchSink {
 public:
  BatchLines(const Report& report, const TextWriter& write) : report_(report), write_(write) {
    for (const LayerFigures& layer : report.layers)
      if (layer.dense) dense_layers_.insert(layer.layer);
    fmt::format_to(std::back_inserter(text_),
                   "layer,batch,tokens,useful_rows,active_experts,policy,scheduled_rows,launched_rows,"
                   "kept_rows,dropped_rows,added_rows,padding_fraction\n");
  }

  void batch(int, const Batch& batch) override {
    if (dense_layers_.count(batch.layer) > 0) return;
    rows_.assign(batch.rows_per_expert, batch.tokens, report_.trace.top_k);
    if (rows_.rows() == 0) return;
    const std::string tokens = batch.tokens > 0 ? std::to_string(batch.tokens) : "";
    for (const Policy& policy : report_.policies) {
      const PolicyCost cost = policy.cost(rows_);
      fmt::format_to(std::back_inserter(text_), "{},{},{},{},{},{},{},{},{},{},{},{}\n", batch.layer,
                     batch.index, tokens, rows_.rows(), rows_.active_experts(), policy.name,
                     cost.scheduled_rows, cost.launched_rows, cost.kept_rows, cost.dropped_rows,
                     cost.added_rows, padding_fraction(cost.scheduled_rows, cost.kept_rows, cost.added_rows));
    }
    constexpr std::size_t bytes_a_write = 1 << 16;
    if (text_.size() >= bytes_a_write) flush();
  }

  void flush() {
    write_({text_.data(), text_.size()});
    text_.clear();
  }

 private:
  const Report& report_;
  const TextWriter& write_;
  std::unordered_set<std::int64_t> dense_layers_;
  BatchRows rows_;
  fmt::memory_buffer text_;
};

}  // namespace

void write_batch_csv(Trace& trace, const Report& report, const TextWriter& write, Progress progress,
                     void* context) {
  BatchLines lines(report, write);
  trace.read(lines, 1, progress, context);
  lines.flush();
}

}  // namespace dropless
