// The kernels that one product call can take.
#pragma once
#include <cstdint>

namespace dropless {

/// Which kernels may run. `automatic` takes sm90 (compute capability 9.0, wgmma and TMA) where the GPU and
/// the operands allow it, else portable; to ask for sm90 where they do not is an Error. What the operands
/// need is said beside the calls. The paths may differ in a result's last bit; within one, results do not
/// change.
enum class KernelPath : std::int32_t { automatic, portable, sm90 };

}  // namespace dropless
