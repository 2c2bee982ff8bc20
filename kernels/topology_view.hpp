// A topology that lies in metadata memory already, as backward finds what forward built.
#pragma once
#include "dropless/topology.hpp"

namespace dropless {

/// What build_topology returns for these bounds and this metadata, without building it. Nothing is read.
Topology topology_view(const TopologyBounds& bounds, void* metadata, std::size_t metadata_bytes);

}  // namespace dropless
