// A training loop that the CPU and the GPU example share: gradient descent on a regression that experts are
// good at, with a router that learns. Only the experts differ between the two programs; router, loss and the
// step are host code on float parameters.
//
//   logits = x W_router; each token takes its top_k experts, with the softmax over all experts renormalised
//   over the chosen ones, which is the softmax over their logits; out = the experts' weighted sum;
//   loss = mean of (out - target)^2
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

namespace training {

constexpr std::size_t tokens = 256, top_k = 2, experts = 4, d_model = 16, d_ff = 32, up_columns = 2 * d_ff;
constexpr int steps = 300;
constexpr float learning_rate = 10;

using Values = std::vector<float>;

inline Values random_values(std::size_t count, float magnitude, std::uint32_t seed) {
  std::mt19937 random(seed);
  Values values(count);
  for (float& value : values)
    value = magnitude * (static_cast<float>(random() >> 8) / static_cast<float>(1 << 23) - 1);
  return values;
}

/// What is trained, or the gradient of it.
struct Parameters {
  Values router;     ///< [d_model, experts]
  Values up;         ///< [experts, d_model, up_columns], the gate's columns first
  Values up_bias;    ///< [experts, up_columns]
  Values down;       ///< [experts, d_ff, d_model]
  Values down_bias;  ///< [experts, d_model]
};

/// The batch's routing.
struct Routing {
  std::vector<std::int32_t> ids;  ///< [tokens, top_k]
  Values weights;                 ///< [tokens, top_k]
};

inline Routing route(const Values& x, const Values& router) {
  Routing routing;
  for (std::size_t token = 0; token < tokens; ++token) {
    float logits[experts] = {};
    for (std::size_t c = 0; c < d_model; ++c)
      for (std::size_t e = 0; e < experts; ++e) logits[e] += x[token * d_model + c] * router[c * experts + e];
    std::int32_t order[experts];
    std::iota(order, order + experts, 0);
    std::sort(order, order + experts, [&](std::int32_t a, std::int32_t b) { return logits[a] > logits[b]; });
    float exponentials[top_k], sum = 0;
    for (std::size_t slot = 0; slot < top_k; ++slot)
      sum += exponentials[slot] = std::exp(logits[order[slot]] - logits[order[0]]);
    for (std::size_t slot = 0; slot < top_k; ++slot) {
      routing.ids.push_back(order[slot]);
      routing.weights.push_back(exponentials[slot] / sum);
    }
  }
  return routing;
}

/// From the gradient of the routing weights to that of W_router: that of a chosen logit is
/// weight * (its gradient - the token's mean of them by weight), that of another logit 0.
inline Values router_gradient(const Values& x, const Routing& routing, const Values& weight_gradient) {
  Values gradient(d_model * experts);
  for (std::size_t token = 0; token < tokens; ++token) {
    const std::size_t begin = token * top_k, end = begin + top_k;
    float mean = 0;
    for (std::size_t i = begin; i < end; ++i) mean += routing.weights[i] * weight_gradient[i];
    for (std::size_t i = begin; i < end; ++i) {
      const float logit_gradient = routing.weights[i] * (weight_gradient[i] - mean);
      for (std::size_t c = 0; c < d_model; ++c)
        gradient[c * experts + static_cast<std::size_t>(routing.ids[i])] +=
            x[token * d_model + c] * logit_gradient;
    }
  }
  return gradient;
}

inline void descend(Values& values, const Values& gradient) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= learning_rate * gradient[i];
}

/// Trains, printing the loss, and says whether it fell to a tenth. `Experts` has
///   Values forward(const Parameters&, const Routing&, const Values& x)      the output [tokens, d_model]
///   Values backward(const Values& out_gradient, Parameters& gradient)       of that forward: sets the
///   experts'
///                                       gradients and returns that of the routing weights [tokens, top_k]
template <class Experts>
bool train(Experts layer) {
  Parameters parameters{random_values(d_model * experts, 0.1F, 1),
                        random_values(experts * d_model * up_columns, 0.3F, 2), Values(experts * up_columns),
                        random_values(experts * d_ff * d_model, 0.3F, 3), Values(experts * d_model)};
  // The target exchanges neighbouring columns, and negates them where the token's first column is negative.
  const Values x = random_values(tokens * d_model, 1, 4);
  Values target(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) target[i] = (x[i / d_model * d_model] < 0 ? -1 : 1) * x[i ^ 1];

  float first_loss = 0, loss = 0;
  for (int step = 0; step <= steps; ++step) {
    const Routing routing = route(x, parameters.router);
    const Values out = layer.forward(parameters, routing, x);
    Values out_gradient(out.size());
    loss = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const float error = out[i] - target[i], count = static_cast<float>(out.size());
      loss += error * error / count;
      out_gradient[i] = 2 * error / count;
    }
    if (step == 0) first_loss = loss;
    if (step % 50 == 0) std::printf("step %3d: loss %.5f\n", step, static_cast<double>(loss));

    Parameters gradient;
    gradient.router = router_gradient(x, routing, layer.backward(out_gradient, gradient));
    descend(parameters.router, gradient.router);
    descend(parameters.up, gradient.up);
    descend(parameters.up_bias, gradient.up_bias);
    descend(parameters.down, gradient.down);
    descend(parameters.down_bias, gradient.down_bias);
  }
  return loss < first_loss / 10;
}

}  // namespace training
