// The steps of an expert layer one by one, each a call of its own over the same operands: where the time of a
// layer goes.
#pragma once
#include <memory>
#include <vector>

#include "layer_operands.hpp"
#include "owned_topology.hpp"
#include "timing.hpp"

namespace dropless::benchmark {

class LayerSteps {
 public:
  LayerSteps(const BenchmarkCase& benchmark_case, const LayerOperands& operands, bool backward,
             Stream stream);

  /// The steps in the layer's order. Operands are never in the state in which the layer would meet them, but
  /// of the same shapes and random.
  std::vector<Contestant> calls() const;

 private:
  const LayerOperands& operands_;
  bool backward_;
  Stream stream_;
  OwnedTopology owned_topology_;
  Topology topology_;
  DeviceMemory rows_, hidden_, up_rows_, up_rows_gradient_;
};

}  // namespace dropless::benchmark
