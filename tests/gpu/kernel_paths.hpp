// The kernel paths that tests go through.
#pragma once
#include "device_properties.hpp"
#include "dropless/kernel_path.hpp"

namespace dropless::test {

inline constexpr KernelPath all_paths[] = {KernelPath::portable, KernelPath::sm90};

inline const char* path_name(KernelPath path) {
  return path == KernelPath::portable ? "portable" : path == KernelPath::sm90 ? "sm90" : "automatic";
}

/// Whether this GPU has the path's instructions.
inline bool gpu_has(KernelPath path) {
  return path == KernelPath::portable || current_device_properties().compute_capability == 90;
}

}  // namespace dropless::test
