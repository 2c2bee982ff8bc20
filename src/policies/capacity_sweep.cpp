// "capacity:1:2:0.25:megatron" stands for five policies, one for each capacity factor.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "dropless/error.hpp"
#include "dropless/policy.hpp"
#include "policies/families.hpp"

namespace dropless {
namespace {

constexpr double most_factors = 256;

}  // namespace

std::vector<std::string> expanded_policies(const std::string& name) {
  const PolicyText text(name, fmt::format("capacity:START:STOP:STEP:SYSTEM with 0 < START <= STOP <= 65536, "
                                          "STEP > 0 and at most {} factors",
                                          most_factors));
  if (name.compare(0, 9, "capacity:") != 0 || text.size() != 4) return {name};
  double range[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string& word = text.word(i);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), range[i]);
    if (error != std::errc() || end != word.data() + word.size()) text.refuse();
  }
  const auto [start, stop, step] = range;
  if (!(start > 0 && start <= stop && stop <= 65536 && step > 0)) text.refuse();
  // A stop that rounding puts a hair before the last factor is still reached.
  const double steps = std::floor((stop - start) / step + 1e-9);
  if (!(steps < most_factors)) text.refuse();
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(steps); ++i)
    names.push_back(fmt::format("capacity:{:.10g}:{}", start + i * step, text.word(3)));
  return names;
}

}  // namespace dropless
