// The activations of expert MLPs, as one formula with few parameters, and the derivative that backward needs.
//
//   linear2   h = f(p)                                     p: the up product's column
//   glu       h = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset)     g, u: gate and up columns
//
// The derivative is 0 at relu's corner, and passes where g or u lies on a limit. With the default parameters
// glu is f(g) * u. gpt-oss is silu with alpha 1.702, limit 7, up_offset 1. (Its checkpoints interleave
// gate and up: n_by_k weights are read in place as two tensors, the second one row further, with twice the
// leading dimension; k_by_n weights and biases must be split first.)
#pragma once
#include <cstdint>
#include <limits>

#include "dropless/mlp_kind.hpp"

namespace dropless {

/// f. gelu_erf: x * Phi(x); gelu_tanh: its usual approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715
/// x^3))); relu_squared: relu(x)^2; silu: x / (1 + exp(-alpha x)).
enum class ActivationFunction : std::int32_t { silu, gelu_erf, gelu_tanh, relu, relu_squared };

struct Activation {
  ActivationFunction function = ActivationFunction::silu;
  float alpha = 1;                                       ///< of silu only; 1 for the others
  float limit = std::numeric_limits<float>::infinity();  ///< glu only; above zero
  float up_offset = 0;                                   ///< glu only
};

/// Throws Error where a parameter is set that the function or the kind does not have, or is out of range;
/// relu_squared is a function of linear2 only.
void check_activation(const Activation& activation, MlpKind kind);

/// "silu", "gelu_erf", "gelu_tanh", "relu" or "relu_squared".
const char* activation_function_name(ActivationFunction function);

}  // namespace dropless
