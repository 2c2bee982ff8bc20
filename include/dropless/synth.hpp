// Writing synthetic routing traces: a stated router model, shape and seed give the same file on every
// machine.
#pragma once
#include <cstdint>
#include <string>

#include "dropless/error.hpp"

namespace dropless {

/// How likely a token is to choose each expert. Every token draws top_k different experts, one after the
/// other, each with probability proportional to its weight among those not yet chosen.
enum class RouterModel {
  uniform,     ///< all experts weigh the same
  zipf,        ///< the expert of rank r (from 1) weighs 1 / r^exponent; ranks are shuffled in every layer
  hot_expert,  ///< one expert (another one in every layer) takes `hot_share` of a draw, the others share the
               ///< rest
};

struct SynthOptions {
  RouterModel model = RouterModel::uniform;
  double exponent = 1;     ///< of zipf; at least 0
  double hot_share = 0.5;  ///< of hot_expert; in [0, 1)
  std::int64_t layers = 1;
  std::int64_t sequences = 1;
  std::int64_t positions = 512;  ///< tokens of a sequence
  std::int64_t top_k = 8;
  std::int64_t experts = 64;  ///< at most 65536, at least top_k
  std::uint64_t seed = 0;
};

/// Bytes of the array that the options describe: one a number up to 256 experts, two above.
std::int64_t synth_bytes(const SynthOptions& options);

/// Writes `path`, a .npy of expert ids [layers, sequences, positions, top_k] in uint8 (up to 256 experts) or
/// uint16. The file is streamed to a temporary name beside it and renamed when complete. Throws Error for
/// options out of range and FileError where the file cannot be written.
void write_synth_trace(const std::string& path, const SynthOptions& options);

}  // namespace dropless
