// Random routing for tests: the same seed gives the same ids on every machine.
#pragma once
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

/// Expert ids [tokens * top_k], token-major: each token names top_k different experts, experts of low number
/// more often the higher `skew` (0: uniform), and each id is -1 with a chance of `unrouted` in 100.
inline std::vector<std::int32_t> random_expert_ids(std::int64_t tokens, int top_k, int experts,
                                                   std::uint32_t seed, int skew = 0, int unrouted = 0) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> ids;
  ids.reserve(static_cast<std::size_t>(tokens * top_k));
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::size_t first = ids.size();
    while (ids.size() < first + static_cast<std::size_t>(top_k)) {
      auto id = static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(experts));
      // The least of several draws leans towards the experts of low number.
      for (int draw = 0; draw < skew; ++draw)
        id = std::min(id, static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(experts)));
      const auto chosen = ids.begin() + static_cast<std::ptrdiff_t>(first);
      if (std::find(chosen, ids.end(), id) == ids.end()) ids.push_back(id);
    }
    for (std::size_t slot = first; slot < ids.size(); ++slot)
      if (static_cast<int>(random() % 100) < unrouted) ids[slot] = -1;
  }
  return ids;
}

/// Expert ids of a top-1 batch with exactly these rows per expert, in a random order.
inline std::vector<std::int32_t> shuffled_expert_ids(const std::vector<std::int64_t>& rows_per_expert,
                                                     std::uint32_t seed) {
  std::vector<std::int32_t> ids;
  for (std::size_t expert = 0; expert < rows_per_expert.size(); ++expert)
    ids.insert(ids.end(), static_cast<std::size_t>(rows_per_expert[expert]),
               static_cast<std::int32_t>(expert));
  std::mt19937 random(seed);
  for (std::size_t i = ids.size(); i > 1; --i) std::swap(ids[i - 1], ids[random() % i]);
  return ids;
}
