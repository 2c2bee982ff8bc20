// The activations of activation.hpp on the device, in float, with their derivatives. Each function is a small
// type, so that the choice among them is made once, outside the loops over elements.
//
//   with_activation(activation, [&](auto f) { ... f(p) ... f.derivative(p) ... });
#pragma once
#include "dropless/activation.hpp"

namespace dropless {

/// 2^x and 1 / x in one instruction each, to about 1e-7 of the result; tiny results are zero. Not volatile,
/// so that a function and its derivative share them.
__device__ inline float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline float fast_reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

constexpr float log2_e = 1.4426950409f;

struct Silu {
  float alpha;
  __device__ float operator()(float p) const { return p * sigmoid(p); }
  __device__ float derivative(float p) const {
    const float s = sigmoid(p);
    return fmaf(alpha * p * s, 1.0f - s, s);
  }

 private:
  /// Of alpha p; 2^x overflows to infinity where it is zero.
  __device__ float sigmoid(float p) const { return fast_reciprocal(1.0f + fast_exp2(p * (alpha * -log2_e))); }
};

/// p Phi(p), Phi the normal distribution's. Its tail Phi(-|p|) is exp(-p^2 / 2) times a polynomial in
/// 1 / (1 + c |p|) (Abramowitz and Stegun 26.2.17, off by at most 7.5e-8), which costs a third of erff.
struct GeluErf {
  __device__ float operator()(float p) const { return fmaf(-fabsf(p), tail(p), fmaxf(p, 0.0f)); }
  __device__ float derivative(float p) const {
    constexpr float inverse_sqrt_2_pi = 0.3989422804f;
    const float below = tail(p);
    return fmaf(p * inverse_sqrt_2_pi, bell(p), p < 0.0f ? below : 1.0f - below);
  }

 private:
  __device__ static float bell(float p) { return fast_exp2(p * p * (-0.5f * log2_e)); }
  __device__ static float tail(float p) {
    const float t = fast_reciprocal(fmaf(0.2316419f, fabsf(p), 1.0f));
    float sum = 0.530702714f;
    sum = fmaf(sum, t, -0.726576013f);
    sum = fmaf(sum, t, 0.710706871f);
    sum = fmaf(sum, t, -0.142248368f);
    sum = fmaf(sum, t, 0.127414796f);
    return bell(p) * (sum * t);
  }
};

/// 0.5 (1 + tanh(u)) is the sigmoid of 2 u, which has no cancellation.
struct GeluTanh {
  __device__ float operator()(float p) const { return p * sigmoid(p); }
  __device__ float derivative(float p) const {
    const float s = sigmoid(p);
    return fmaf(p * s * fmaf(3.0f * scale * cubic, p * p, scale), 1.0f - s, s);
  }

 private:
  static constexpr float scale = 1.5957691216f;  // 2 sqrt(2 / pi)
  static constexpr float cubic = 0.044715f;
  __device__ static float sigmoid(float p) {
    const float argument = p * fmaf(-log2_e * scale * cubic, p * p, -log2_e * scale);
    return fast_reciprocal(1.0f + fast_exp2(argument));
  }
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

/// h = f(min(g, limit)) * (clamp(u, -limit, limit) + up_offset). A NaN stays one.
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
  __device__ float limited_gate(float gate) const { return least(gate, limit); }
  __device__ float limited_up(float up) const { return -least(-least(up, limit), limit) + up_offset; }
  /// fminf, but of a NaN a NaN.
  __device__ static float least(float left, float right) {
    float result;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(left), "f"(right));
    return result;
  }
};

}  // namespace dropless
