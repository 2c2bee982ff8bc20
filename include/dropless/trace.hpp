// Reading routing traces: which experts a real router chose, cut into batches, whatever file it was saved in.
//
// A trace file becomes a stream of batches. A batch is the tokens of one layer that one call of the expert
// layer sees together; rows per expert are counted within it. Files are streamed: memory does not grow with
// file size.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dropless/array_view.hpp"
#include "dropless/error.hpp"

namespace dropless {

/// What an array's axis counts. `slot` runs over a token's top_k choices; `expert` over per-expert counts.
enum class Axis { layer, step, sequence, position, token, slot, expert, rank };

/// The axis of that name; throws Error for any other word.
Axis axis_from_name(const std::string& name);
const char* axis_name(Axis axis);

/// How to read a file. Everything left empty is detected or inferred, and `TraceInfo::assumptions` says how.
struct TraceOptions {
  std::string format;             ///< "npy", "npz", "safetensors", "json", "jsonl", "csv" or empty: detect
  std::vector<Axis> axes;         ///< names of an array's axes, outermost first
  bool batch_axes_given = false;  ///< whether batch_axes says which axes index a batch
  std::vector<Axis> batch_axes;   ///< with batch_axes_given: those axes; none of them = everything in a layer
  std::int64_t batch_tokens = 0;  ///< > 0: cut the tokens of a layer into batches of this many
  std::int64_t experts = 0;       ///< > 0: the number of experts
  std::int64_t top_k = 0;         ///< > 0: choices a token has, where the file does not say
  std::vector<std::int64_t> layers;  ///< the layers to read; empty: all
  bool drop_warmup = false;          ///< leave out the identical rows a layer starts with (256 or more)
  bool batched = false;              ///< counts are those of single batches although they look cumulative
};

/// What a file says of itself, known before its batches are read.
struct TraceInfo {
  std::string path;
  std::string format;  ///< the container, then the producer's convention where one was recognised
  std::int64_t experts = 0;
  bool experts_inferred = false;     ///< experts is the largest id + 1
  std::int64_t top_k = 0;            ///< 0: unknown (counts alone)
  bool counts_only = false;          ///< the file holds rows per expert, not expert ids
  bool cumulative = false;           ///< counts gathered over a whole run: padding per batch means nothing
  std::vector<std::int64_t> layers;  ///< layer numbers in the order in which they are delivered
  /// One sentence for each thing the file did not say (but for experts_inferred, which says itself).
  std::vector<std::string> assumptions;
  /// One sentence for each thing in the file that makes it doubtful that it holds what it was read as.
  std::vector<std::string> warnings;
};

/// Rows per expert of one batch. Pointers are valid during the call only.
struct Batch {
  std::int64_t layer = 0;     ///< layer number, one of TraceInfo::layers
  std::int64_t index = 0;     ///< number of the batch within its layer, from 0, in file order; batches that
                              ///< drop_warmup empties are not delivered and may leave gaps
  std::int64_t tokens = 0;    ///< tokens of the batch; for counts, assignments / top_k, or 0 where unknown
  std::int64_t unrouted = 0;  ///< ids below zero
  std::int64_t duplicate_rows = 0;                ///< tokens that name an expert twice
  std::int64_t warmup_rows = 0;                   ///< tokens of this batch that belong to the layer's warm-up
  ArrayView<const std::int64_t> rows_per_expert;  ///< [experts]
  /// [experts]: the warm-up's share of rows_per_expert; empty where warmup_rows is 0.
  ArrayView<const std::int64_t> warmup_rows_per_expert;
};

/// Batches of one token each, all of one layer and each with one row in top_k different experts. They differ
/// in nothing but which experts these are.
struct TokenBatches {
  std::int64_t layer = 0;
  std::int64_t index = 0;  ///< number of the first one; the others follow it where the sink asks for a row
  std::int64_t batches = 0;
  ArrayView<const std::int64_t> rows_per_expert;  ///< [experts]: summed over the batches
  ArrayView<const std::int64_t> lowest_expert;    ///< [experts]: batches whose lowest-numbered expert it is
};

/// What is known of a layer once all its batches were delivered.
struct LayerFacts {
  std::int64_t layer = 0;
  std::int64_t tokens = 0;
  /// Identical rows the layer starts with, where they are 256 or more and others follow; else 0.
  std::int64_t warmup_rows = 0;
  std::int64_t duplicate_rows = 0;
  std::int64_t unrouted = 0;
  bool dense = false;  ///< all-zero counts, or every row repeats one expert: not an MoE layer
};

/// Takes the batches. Several workers may call at once, each with its own number in [0, workers); batches of
/// one layer reach a sink in any order across workers, and which worker gets which batch depends on the file,
/// the options and the number of workers only.
class BatchSink {
 public:
  virtual ~BatchSink() = default;
  virtual void batch(int worker, const Batch& batch) = 0;

  /// With n > 1, the batches [i * n, (i + 1) * n) of a layer all reach one worker, in order, for each i;
  /// asked of traces cut by batch_tokens only.
  virtual std::int64_t batches_in_a_row() const { return 1; }

  /// A sink that needs no more of a batch of one token than TokenBatches says may take such batches together,
  /// which costs a hundredth: up to that many at once and, where batches_in_a_row() is above 1, never across
  /// a multiple of it. Even then some arrive one by one, and all of them from some files.
  virtual std::int64_t most_token_batches() const { return 0; }
  virtual void token_batches(int, const TokenBatches&) {}
};

/// Called now and then with the share done, in [0, 1], from the thread that called read().
using Progress = void (*)(double done, void* context);

/// An opened trace. Opening checks everything that the header can say; read() checks the rest as it goes.
/// A file that is refused throws FileError with path, place and reason.
class Trace {
 public:
  virtual ~Trace() = default;
  virtual const TraceInfo& info() const = 0;
  /// Delivers every batch to `sink` with `workers` threads and returns the facts of each layer, in the order
  /// of info().layers. May be called again and then delivers the same batches.
  virtual std::vector<LayerFacts> read(BatchSink& sink, int workers, Progress progress = nullptr,
                                       void* context = nullptr) = 0;
};

/// Opens a trace file, or a folder of per-rank files (ranks are summed).
std::unique_ptr<Trace> open_trace(const std::string& path, const TraceOptions& options = {});

}  // namespace dropless
