// Policies that give every expert the same number of rows: padded to the fullest expert, or cut at a
// capacity.
#include <charconv>
#include <cmath>

#include "dropless/error.hpp"
#include "policies/families.hpp"
#include "policies/metadata.hpp"

namespace dropless {
namespace {

/// A capacity factor in (0, 65536].
double factor_from(const PolicyText& text, const std::string& word) {
  double factor = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), factor);
  if (error != std::errc() || end != word.data() + word.size() || !(factor > 0 && factor <= 65536))
    text.refuse();
  return factor;
}

/// F * n / E in double arithmetic, as the systems compute it.
double mean_times(double factor, const BatchRows& batch) {
  return factor * static_cast<double>(batch.rows()) / static_cast<double>(batch.experts());
}

std::int64_t tutel_capacity(double factor, const BatchRows& batch) {
  if (batch.rows() == 0) return 0;
  if (batch.tokens() == 0 || batch.top_k() == 0)
    throw Error("policy capacity:F:tutel", "asked about a batch of unknown tokens",
                "a trace with token counts, or --top-k");
  return batch.top_k() * static_cast<std::int64_t>(std::floor(
                             factor * static_cast<double>(ceil_div(batch.tokens(), batch.experts()))));
}

/// Every expert has `capacity` rows and drops the rest; `padded`: the capacity is scheduled even where rows
/// lack.
PolicyCost capped_cost(const BatchRows& batch, std::int64_t capacity, bool padded) {
  const std::int64_t kept = batch.capped(capacity);
  const std::int64_t scheduled = padded ? batch.experts() * capacity : kept;
  return {scheduled, scheduled, kept, batch.rows() - kept, 0, {}};
}

}  // namespace

Policy make_capacity(const PolicyText& text, const ModelShape&) {
  text.expect_words(2, 2);
  const double factor = factor_from(text, text.word(0));
  const std::string& system = text.word(1);
  const std::string& name = text.text();
  const std::string kept = "; kept sum of min(rows, capacity)";
  if (system == "megablocks")
    return {name, "MegaBlocks 0.10", "E * capacity, capacity = floor(F n / E)" + kept,
            [factor](const BatchRows& batch) {
              return capped_cost(batch, static_cast<std::int64_t>(std::floor(mean_times(factor, batch))),
                                 true);
            }};
  if (system == "megatron" || system == "megatron-pad")
    return {name, "Megatron-Core",
            (system == "megatron" ? "the kept rows (its default)" : "E * capacity") +
                std::string(", capacity = ceil(F n / E)") + kept,
            [factor, padded = system == "megatron-pad"](const BatchRows& batch) {
              return capped_cost(batch, static_cast<std::int64_t>(std::ceil(mean_times(factor, batch))),
                                 padded);
            }};
  if (system == "tutel")
    return {name, "Tutel",
            "E * capacity, capacity = k floor(F ceil(T / E)) (needs tokens)" + kept +
                "; metadata 8 n E of temporaries",
            [factor](const BatchRows& batch) {
              PolicyCost cost = capped_cost(batch, tutel_capacity(factor, batch), true);
              cost.metadata_bytes = tutel_metadata_bytes(batch.rows(), batch.experts());
              return cost;
            }};
  text.refuse();
}

Policy make_max(const PolicyText& text, const ModelShape&) {
  text.expect_words(0, 0);
  return {text.text(), "batched product", "E * the most rows of one expert",
          [](const BatchRows& batch) { return keep_all(batch, batch.experts() * batch.largest()); }};
}

}  // namespace dropless
