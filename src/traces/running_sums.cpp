// One count that falls, or a total that does not grow evenly, settles it for the whole log.
#include "traces/running_sums.hpp"

#include <algorithm>

namespace dropless::traces {

void RunningSums::compare(std::int64_t number, const std::int64_t* counts, std::int64_t experts) {
  Layer& layer = layers_[number];
  const auto size = static_cast<std::size_t>(experts);
  double growth = 0;
  bool falls = false;
  for (std::size_t expert = 0; expert < std::max(size, layer.last.size()); ++expert) {
    if (expert >= layer.last.size()) layer.last.push_back(0);
    const std::int64_t count = expert < size ? counts[expert] : 0;
    const std::int64_t more = count - layer.last[expert];
    falls |= more < 0;
    layer.growths += more > 0 && layer.records > 0;
    growth += static_cast<double>(more);
    layer.last[expert] = count;
  }
  layer.total += growth;
  if (layer.records++ == 0 || layer.total == 0) return;  // a dense layer's counts stay 0
  layer.least_growth = layer.records == 2 ? growth : std::min(layer.least_growth, growth);
  layer.most_growth = std::max(layer.most_growth, growth);
  possible_ = !falls && growth > 0 && layer.most_growth < 2 * layer.least_growth;
  if (!possible_) layers_.clear();
}

bool RunningSums::found() const {
  std::int64_t growths = 0;
  for (const auto& [number, layer] : layers_)
    if (layer.total > 0 && layer.records >= least_records) growths += layer.growths;
  return possible_ && growths >= least_growths;
}

}  // namespace dropless::traces
