// The options by which a command learns how to read a trace, from the command line's words to TraceOptions.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dropless/model_shape.hpp"
#include "dropless/trace.hpp"

namespace CLI {
class App;
}

/// Lives as long as the command (its options point into it).
class TraceArguments {
 public:
  explicit TraceArguments(CLI::App& command);
  TraceArguments(const TraceArguments&) = delete;

  /// The sizes of --batch-tokens, as typed.
  const std::vector<std::int64_t>& batch_sizes() const { return batch_sizes_; }

  /// Opens the trace; what the file lacks (experts, top_k) is taken from the model where one is given. Throws
  /// Error naming the option that cannot be understood, and where there are several batch sizes.
  std::unique_ptr<dropless::Trace> open(const std::string& path,
                                        const std::optional<dropless::ModelShape>& model) const;
  /// The same, cut into batches of `batch_tokens`; 0: as the file has them.
  std::unique_ptr<dropless::Trace> open(const std::string& path,
                                        const std::optional<dropless::ModelShape>& model,
                                        std::int64_t batch_tokens) const;

 private:
  dropless::TraceOptions parsed() const;

  dropless::TraceOptions options_;  // those that need no parsing
  std::vector<std::int64_t> batch_sizes_;
  std::string axes_, batch_, layers_;
};
