// A topology in memory of its own, built from ids that are on the device already: what is timed is the build
// alone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "device_memory.hpp"
#include "dropless/topology.hpp"

namespace dropless::benchmark {

class OwnedTopology {
 public:
  /// ids: [tokens, top_k], token-major.
  OwnedTopology(const TopologyBounds& bounds, const std::vector<std::int32_t>& ids)
      : bounds_(bounds),
        ids_(sizeof(std::int32_t) * ids.size()),
        metadata_(topology_metadata_bytes(bounds)),
        workspace_(topology_workspace_bytes(bounds)) {
    DROPLESS_CUDA_CHECK(cudaMemcpy(ids_.data(), ids.data(), ids_.bytes(), cudaMemcpyHostToDevice));
    DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for the default stream
  }

  Topology build(Stream stream) const {
    RouterIds ids;
    ids.data = ids_.data();
    return build_topology(ids, bounds_, metadata_.data(), metadata_.bytes(), workspace_.data(),
                          workspace_.bytes(), stream);
  }
  std::size_t metadata_bytes() const { return metadata_.bytes(); }
  std::size_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  TopologyBounds bounds_;
  DeviceMemory ids_, metadata_, workspace_;
};

}  // namespace dropless::benchmark
