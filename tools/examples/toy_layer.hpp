// The layer that the examples compute, small enough to check by hand: four tokens of ones, three experts, and
// y[token] = sum over its slots of routing weight * relu(x W1[expert]) W2[expert]. Every expert turns a row
// of ones into a row of expert + 1; half of what W1 gives is negative, so that a forgotten relu shows.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace toy {

constexpr std::int64_t tokens = 4, top_k = 2, experts = 3, d_model = 64, d_ff = 128;
constexpr std::int64_t assignments = tokens * top_k, expert_elements = d_ff * d_model;

/// [tokens, top_k]; -1 is a slot that was not routed.
inline const std::vector<std::int32_t> expert_ids = {0, 2, 2, 1, 0, -1, 2, 0};
inline const std::vector<float> routing_weights = {0.75F, 0.25F, 0.5F, 0.5F, 1, 0, 0.25F, 0.75F};

/// [tokens, d_model]
inline std::vector<float> make_x() { return std::vector<float>(tokens * d_model, 1); }

/// Both weights are [experts, d_ff, d_model]: row f is what hidden feature f reads from x or adds to y.
inline std::vector<float> make_w1() {
  std::vector<float> w1;
  for (std::int64_t i = 0; i < experts * expert_elements; ++i)
    w1.push_back(i / d_model % 2 == 0 ? 1.0F / d_model : -1.0F / d_model);
  return w1;
}
inline std::vector<float> make_w2() {
  std::vector<float> w2;
  for (std::int64_t i = 0; i < experts * expert_elements; ++i)
    w2.push_back(static_cast<float>(i / expert_elements + 1) / (d_ff / 2));
  return w2;
}

/// Prints each token's output beside what it should be; true where all of y [tokens, d_model] is right.
inline bool check(const std::vector<float>& y) {
  bool right = true;
  for (std::size_t token = 0; token < tokens; ++token) {
    float expected = 0;
    for (std::size_t assignment = token * top_k; assignment < (token + 1) * top_k; ++assignment)
      expected += routing_weights[assignment] * static_cast<float>(expert_ids[assignment] + 1);
    for (std::size_t column = 0; column < d_model; ++column)
      right = right && y[token * d_model + column] == expected;
    std::printf("token %zu: %g, expected %g\n", token, static_cast<double>(y[token * d_model]),
                static_cast<double>(expected));
  }
  return right;
}

}  // namespace toy
