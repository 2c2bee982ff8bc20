// The activations of activation.hpp on the device, in float, with their derivatives. Each function is a small
// type, so that the choice among them is made once, outside the loops over elements.
//
//   with_activation(activation, [&](auto f) { ... f(p) ... f.derivative(p) ... });
#pragma once
#include "dropless/activation.hpp"

namespace dropless {

/// 1 / (1 + exp(-x)); exp overflows to infinity where the result is 0. The fast intrinsics err by some 1e-6
/// of the result in the range that activations have, far below a rounding step of the 16-bit types.
__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }

struct Silu {
  float alpha;
  __device__ float operator()(float p) const { return p * sigmoid(alpha * p); }
  __device__ float derivative(float p) const {
    const float s = sigmoid(alpha * p);
    return s * (1.0f + alpha * p * (1.0f - s));
  }
};

struct GeluErf {
  __device__ float operator()(float p) const { return p * cumulative(p); }
  __device__ float derivative(float p) const {
    constexpr float inverse_sqrt_2_pi = 0.3989422804f;
    return cumulative(p) + p * inverse_sqrt_2_pi * __expf(-0.5f * p * p);
  }

 private:
  /// Phi, the normal distribution's.
  __device__ static float cumulative(float p) {
    constexpr float inverse_sqrt_2 = 0.7071067812f;
    return 0.5f + 0.5f * erff(p * inverse_sqrt_2);
  }
};

/// 0.5 (1 + tanh(u)) is sigmoid(2 u), which has no cancellation.
struct GeluTanh {
  __device__ float operator()(float p) const { return p * sigmoid(argument(p)); }
  __device__ float derivative(float p) const {
    const float s = sigmoid(argument(p));
    return s * (1.0f + p * (1.0f - s) * scale * (1.0f + 3.0f * cubic * p * p));
  }

 private:
  static constexpr float scale = 1.5957691216f;  // 2 sqrt(2 / pi)
  static constexpr float cubic = 0.044715f;
  __device__ static float argument(float p) { return scale * p * (1.0f + cubic * p * p); }
};

struct Relu {
  __device__ float operator()(float p) const { return p < 0.0f ? 0.0f : p; }
  __device__ float derivative(float p) const { return p > 0.0f ? 1.0f : 0.0f; }
};

struct ReluSquared {
  __device__ float operator()(float p) const { return p < 0.0f ? 0.0f : p * p; }
  __device__ float derivative(float p) const { return p < 0.0f ? 0.0f : 2.0f * p; }
};

/// Calls visitor(f) with the function of `activation`, on the host (to choose a kernel) or on the device; the
/// visitor is code of one of the two.
#pragma nv_exec_check_disable
template <class Visitor>
__host__ __device__ inline void with_activation(const Activation& activation, Visitor&& visitor) {
  switch (activation.function) {
    case ActivationFunction::silu:
      return visitor(Silu{activation.alpha});
    case ActivationFunction::gelu_erf:
      return visitor(GeluErf{});
    case ActivationFunction::gelu_tanh:
      return visitor(GeluTanh{});
    case ActivationFunction::relu:
      return visitor(Relu{});
    case ActivationFunction::relu_squared:
      return visitor(ReluSquared{});
  }
}

/// h = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset). A NaN stays one: it is below no limit.
struct GluRule {
  float limit, up_offset;

  __host__ __device__ explicit GluRule(const Activation& activation)
      : limit(activation.limit), up_offset(activation.up_offset) {}

  template <class Function>
  __device__ float operator()(Function f, float gate, float up) const {
    return f(limited_gate(gate)) * limited_up(up);
  }

  struct Gradient {
    float gate, up;
  };
  /// h's derivatives by gate and up. At a limit they are those of its inner side, past it zero.
  template <class Function>
  __device__ Gradient derivative(Function f, float gate, float up) const {
    const float g = limited_gate(gate);
    return {gate > limit ? 0.0f : f.derivative(g) * limited_up(up), fabsf(up) > limit ? 0.0f : f(g)};
  }

 private:
  __device__ float limited_gate(float gate) const { return gate > limit ? limit : gate; }
  __device__ float limited_up(float up) const {
    return (fabsf(up) > limit ? copysignf(limit, up) : up) + up_offset;
  }
};

}  // namespace dropless
