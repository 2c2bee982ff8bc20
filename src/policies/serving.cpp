// Policies whose rounding is chosen from the batch: vLLM's fused experts, torch's grouped product, SonicMoE.
#include <algorithm>

#include "dropless/error.hpp"
#include "policies/families.hpp"
#include "policies/metadata.hpp"

namespace dropless {
namespace {

PolicyCost vllm_cost(const BatchRows& batch, std::int64_t block) {
  const std::int64_t rows = batch.rows(), experts = batch.experts();
  PolicyCost cost = keep_all(batch, batch.rounded_up(block), vllm_metadata_bytes(rows, experts, block));
  std::int64_t bound = rows + experts * (block - 1);
  if (rows < experts) bound = std::min(rows * block, bound);
  cost.launched_rows = round_up(bound, block);
  return cost;
}

/// rows rounded to the nearest multiple of 128, halves to the even multiple, without a branch: adding 63, or
/// 64 where the multiple below is odd, carries into the multiple above exactly where it is to be taken.
constexpr std::int64_t nearest_128(std::int64_t rows) {
  return (rows + 63 + (rows >> 7 & 1)) & ~std::int64_t{127};
}

PolicyCost token_rounded_cost(const BatchRows& batch) {
  PolicyCost cost;
  if (nearest_128(batch.largest()) == 0) {
    cost.dropped_rows = batch.rows();
    return cost;
  }
  std::int64_t computed = 0;
  for (const std::int64_t rows : batch.rows_per_expert()) {
    const std::int64_t rounded = nearest_128(rows);
    computed += rounded;
    cost.kept_rows += std::min(rows, rounded);
    cost.scheduled_rows += (rounded + 255) & ~std::int64_t{255};
  }
  cost.added_rows = computed - cost.kept_rows;
  cost.launched_rows = cost.scheduled_rows;
  cost.dropped_rows = batch.rows() - cost.kept_rows;
  return cost;
}

}  // namespace

Policy make_vllm(const PolicyText& text, const ModelShape&) {
  text.expect_words(1, 1);
  const char* source = "vLLM 2025-08";
  const std::string formula =
      "sum of round_up(rows, B); launched round_up(n + E (B - 1), B), or round_up(min(n B, n + E (B - 1)), "
      "B) when "
      "n < E; metadata 4 P + 4 P / B + 4 + 4 (E + 1), P = round_up(n + E (B - 1), B)";
  if (text.word(0) == "auto")
    return {text.text(), source,
            "vllm:B with B = 16 where T <= E, else 64: the untuned default (needs tokens)",
            [](const BatchRows& batch) {
              if (batch.tokens() == 0 && batch.rows() > 0)
                throw Error("policy vllm:auto", "asked about a batch of unknown tokens",
                            "a trace with token counts, or --top-k");
              return vllm_cost(batch, batch.tokens() <= batch.experts() ? 16 : 64);
            }};
  const std::int64_t block = text.size_from(text.word(0));
  return {text.text(), source, "B = " + std::to_string(block) + "; " + formula,
          [block](const BatchRows& batch) { return vllm_cost(batch, block); }};
}

Policy make_torch(const PolicyText& text, const ModelShape& shape) {
  text.expect_words(0, 1);
  if (text.size() == 1 && text.word(0) != "up" && text.word(0) != "down") text.refuse();
  const bool down = text.size() == 1 && text.word(0) == "down";
  const std::int64_t columns = down ? shape.d_model : up_columns(shape.mlp, shape.d_ff);
  const bool narrow = columns > 0 && columns <= 128;
  return {text.text(), "torch 2.11",
          std::string("_grouped_mm on sm_90: sum of round_up(rows, 128) where floor(n / E) <= 128 or the ") +
              (down ? "down" : "up") +
              " product has at most 128 columns, else of round_up(rows, 256) (without widths the mean alone "
              "decides); "
              "metadata 4 (E + 1) of offsets, the sort's order not counted",
          [narrow](const BatchRows& batch) {
            const bool few_rows = batch.rows() / std::max<std::int64_t>(batch.experts(), 1) <= 128;
            return keep_all(batch, batch.rounded_up(few_rows || narrow ? 128 : 256),
                            grouped_offsets_bytes(batch.experts()));
          }};
}

Policy make_sonic(const PolicyText& text, const ModelShape&) {
  text.expect_words(0, 1);
  if (text.size() == 1 && text.word(0) != "nr") text.refuse();
  const bool token_rounding = text.size() == 1;
  const std::string metadata = "; metadata 12 n + 4 T + 8 (E + 1) (needs tokens)";
  return {text.text(), "SonicMoE 2025-12",
          (token_rounding ? "token rounding: r = 128 round_half_even(rows / 128); kept sum of min(rows, r), "
                            "added sum of max(0, r - rows), "
                            "scheduled sum of round_up(r, 256)"
                          : "sum of round_up(rows, 256): tile times cluster (its own report says 128)") +
              metadata,
          [token_rounding](const BatchRows& batch) {
            PolicyCost cost =
                token_rounding ? token_rounded_cost(batch) : keep_all(batch, batch.rounded_up(256));
            if (batch.tokens() > 0)
              cost.metadata_bytes = sonic_metadata_bytes(batch.rows(), batch.tokens(), batch.experts());
            return cost;
          }};
}

}  // namespace dropless
