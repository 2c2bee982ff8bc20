// The activations and their derivatives, one column at a time.
#pragma once
#include <algorithm>
#include <cmath>

#include "dropless/activation.hpp"

namespace dropless {

/// A function's value and its derivative at one point.
template <class T>
struct ValueAndSlope {
  T value, slope;
};

/// f of activation.hpp.
template <class T>
ValueAndSlope<T> activation_function(const Activation& activation, T x) {
  constexpr T pi = static_cast<T>(3.14159265358979323846L);
  switch (activation.function) {
    case ActivationFunction::gelu_erf: {
      const T below = std::erfc(-x / std::sqrt(T{2})) / 2, density = std::exp(-x * x / 2) / std::sqrt(2 * pi);
      return {x * below, below + x * density};
    }
    case ActivationFunction::gelu_tanh: {
      const T factor = std::sqrt(2 / pi), cubic = static_cast<T>(0.044715L);
      const T tanh = std::tanh(factor * (x + cubic * x * x * x));
      const T tanh_slope = (1 - tanh * tanh) * factor * (1 + 3 * cubic * x * x);
      return {x * (1 + tanh) / 2, (1 + tanh + x * tanh_slope) / 2};
    }
    case ActivationFunction::relu:
      return {std::max(x, T{0}), x > 0 ? T{1} : T{0}};
    case ActivationFunction::relu_squared: {
      const T positive = std::max(x, T{0});
      return {positive * positive, 2 * positive};
    }
    case ActivationFunction::silu:
      break;
  }
  const T alpha = activation.alpha, sigmoid = 1 / (1 + std::exp(-alpha * x));
  return {x * sigmoid, sigmoid * (1 + alpha * x * (1 - sigmoid))};
}

/// h of glu, and its derivatives by gate and up.
template <class T>
struct GluValue {
  T value, gate_slope, up_slope;
};
template <class T>
GluValue<T> glu(const Activation& activation, T gate, T up) {
  const T limit = activation.limit;
  const auto [value, slope] = activation_function(activation, std::min(gate, limit));
  const T factor = std::clamp(up, -limit, limit) + static_cast<T>(activation.up_offset);
  return {value * factor, gate <= limit ? slope * factor : T{0}, std::abs(up) <= limit ? value : T{0}};
}

}  // namespace dropless
