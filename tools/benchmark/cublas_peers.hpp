// cuBLAS as a peer, in the ways people compute expert products with it: one dense product of the same total
// shape (what raggedness is measured against), one call an expert on one stream or spread over four streams
// (as TransformerEngine does), and the grouped call.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "operand_ring.hpp"
#include "timing.hpp"

namespace dropless::benchmark {

class CublasPeers {
 public:
  /// Work is enqueued on `stream`, or forks from it and joins it again.
  explicit CublasPeers(Stream stream);
  ~CublasPeers();
  CublasPeers(const CublasPeers&) = delete;
  CublasPeers& operator=(const CublasPeers&) = delete;

  /// Each returns a call over the ring's operands, which must outlive it. They know the rows of each expert
  /// on the host, which spares them a synchronisation that users of device-side routing pay.
  Call dense(const OperandRing& ring) const;
  Call loop(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const;
  Call streams(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const;
  Call grouped(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const;

  /// cuBLAS's version as it states it: major * 10000 + minor * 100 + patch.
  int version() const;

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace dropless::benchmark
