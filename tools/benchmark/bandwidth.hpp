// The memory rate that bounds every call: what this GPU reaches when it copies, and when it only reads.
#pragma once
#include <algorithm>

#include "dropless/stream.hpp"

namespace dropless::benchmark {

struct MemoryRates {
  double copy_tbps = 0;  ///< device-to-device copy, bytes read + bytes written, in 10^12 bytes a second
  double read_tbps = 0;  ///< a kernel that only reads
  double higher() const { return std::max(copy_tbps, read_tbps); }
};

/// Measures both in rotation on buffers of 2 GiB. Allocates them, and waits for the stream.
MemoryRates measure_memory_rates(Stream stream);

}  // namespace dropless::benchmark
