// The choice of a kernel path, the same for every product: by what the GPU is and what sm90_can_run says of
// the operands.
#pragma once
#include "device_properties.hpp"
#include "dropless/error.hpp"
#include "dropless/kernel_path.hpp"

namespace dropless {

/// `wanted`, or what `automatic` stands for; throws Error where the Hopper kernels are wanted and cannot run.
template <class Product>
KernelPath chosen_path(const Product& product, KernelPath wanted) {
  const bool possible = current_device_properties().compute_capability == 90 && sm90_can_run(product);
  if (wanted == KernelPath::automatic) return possible ? KernelPath::sm90 : KernelPath::portable;
  if (wanted == KernelPath::sm90 && !possible)
    throw Error("path", "sm90", "operands and a GPU that the Hopper kernels can address");
  return wanted;
}

}  // namespace dropless
