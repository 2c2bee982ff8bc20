// The choice of a kernel path, the same for every product: by what the GPU is and what sm90_can_run says of
// the operands.
#pragma once
#include "device_properties.hpp"
#include "dropless/error.hpp"
#include "dropless/kernel_path.hpp"

namespace dropless {

/// What `automatic` stands for.
template <class Product>
KernelPath possible_path(const Product& product) {
  const bool sm90 = current_device_properties().compute_capability == 90 && sm90_can_run(product);
  return sm90 ? KernelPath::sm90 : KernelPath::portable;
}

/// Throws Error naming `argument` where the Hopper kernels are wanted and cannot run.
inline void require_path(KernelPath wanted, KernelPath possible, const char* argument) {
  if (wanted == KernelPath::sm90 && possible != KernelPath::sm90)
    throw Error(argument, "sm90", "operands and a GPU that the Hopper kernels can address");
}

/// `wanted`, or what `automatic` stands for.
template <class Product>
KernelPath chosen_path(const Product& product, KernelPath wanted, const char* argument) {
  const KernelPath possible = possible_path(product);
  require_path(wanted, possible, argument);
  return wanted == KernelPath::automatic ? possible : wanted;
}

}  // namespace dropless
