// Timing on a CUDA stream. One batch is many back-to-back calls between two events, long enough that the
// events and the first launch do not show; contestants take turns, round after round, so that a change of the
// clock meets all of them alike; the median of the rounds is reported with its spread.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dropless/stream.hpp"

namespace dropless::benchmark {

/// Enqueues one piece of work on the stream that is timed. `index` counts the calls from 0 without repeating:
/// a contestant picks its operands by it, so that consecutive calls need not meet the same memory.
using Call = std::function<void(std::int64_t index)>;

/// Bytes that calls should touch before they meet the same memory again, for that to come from DRAM: three
/// times the largest L2 cache at hand (60 MB on the H200).
constexpr std::int64_t least_bytes_per_turn = 180'000'000;

struct Contestant {
  std::string name;
  Call call;
};

struct RotationOptions {
  int rounds = 8;
  double batch_us = 2000;  ///< a batch has as many calls as last at least this long
  /// Replay each batch from a CUDA graph, so that the host's time of a call does not count. The calls of a
  /// batch then have the same indices every time.
  bool graph = false;
};

/// Device time of one call over the rounds.
struct Timing {
  double median_us = 0;
  double spread = 0;  ///< (slowest - fastest) / median of the rounds
};

/// Times every contestant once a round. Every other round begins one further, and the rounds between run
/// backwards: what a call leaves in the caches, and how warm, is worth up to 3 % to the next one, and in an
/// even number of rounds each contestant follows either of its neighbours equally often. Each is called a few
/// times first, which also settles how many calls its batches have.
std::vector<Timing> time_in_rotation(const std::vector<Contestant>& contestants,
                                     const RotationOptions& options, Stream stream);

}  // namespace dropless::benchmark
