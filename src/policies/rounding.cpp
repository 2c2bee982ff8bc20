// Policies that round every expert's rows up to a multiple that does not depend on the batch: block-sparse
// blocks, DeepGEMM, CUTLASS tiles, aligned scaled formats, and this library's own tiles.
#include <fmt/format.h>

#include <algorithm>

#include "dropless/block_topology.hpp"
#include "dropless/row_tiles.hpp"
#include "policies/families.hpp"
#include "policies/metadata.hpp"

namespace dropless {
namespace {

std::string rounded(std::int64_t multiple) { return fmt::format("sum of round_up(rows, {})", multiple); }

Policy rounding_policy(const PolicyText& text, std::string source, std::string formula,
                       std::int64_t multiple) {
  return {text.text(), std::move(source), std::move(formula),
          [multiple](const BatchRows& batch) { return keep_all(batch, batch.rounded_up(multiple)); }};
}

}  // namespace

Policy make_block(const PolicyText& text, const ModelShape& shape) {
  text.expect_words(1, 1);
  const std::int64_t block = text.size_from(text.word(0));
  if (block < 16 || block > 256 || (block & (block - 1)) != 0) text.refuse();
  const std::int64_t width = shape.d_ff % block == 0 ? shape.d_ff / block : 0;
  return {
      text.text(), "MegaBlocks 0.10",
      fmt::format(
          "{} ({}); metadata 12 n + 16 E of routing and 10 nnz + 4 (R + C + 2) of topology, R = scheduled "
          "/ {}, C = E d_ff / {}, nnz = R d_ff / {} (needs d_ff, a multiple of the block)",
          rounded(block), block == 128 ? "stk 0.7.1 too" : "its own block is 128", block, block, block),
      [block, width](const BatchRows& batch) {
        PolicyCost cost = keep_all(batch, batch.rounded_up(block));
        const std::int64_t block_rows = cost.scheduled_rows / block;
        if (width > 0)
          cost.metadata_bytes =
              megablocks_routing_bytes(batch.rows(), batch.experts()) +
              megablocks_topology_bytes(block_rows * width, block_rows, batch.experts() * width);
        return cost;
      }};
}

Policy make_deepgemm(const PolicyText& text, const ModelShape&) {
  text.expect_words(0, 0);
  return rounding_policy(text, "DeepGEMM 2026-06", rounded(128) + " (contiguous layout)", 128);
}

Policy make_deepgemm_masked(const PolicyText& text, const ModelShape&) {
  text.expect_words(1, 1);
  const std::int64_t tile = text.size_from(text.word(0));
  if (tile != 64 && tile != 128) text.refuse();
  return rounding_policy(text, "DeepGEMM 2026-06", rounded(tile) + " (masked layout)", tile);
}

Policy make_tile(const PolicyText& text, const ModelShape&) {
  text.expect_words(1, 1);
  const std::string& word = text.word(0);
  const std::size_t cross = word.find('x');
  if (cross == std::string::npos) text.refuse();
  const std::int64_t rows = text.size_from(word.substr(0, cross)),
                     cluster = text.size_from(word.substr(cross + 1));
  if (rows * cluster > 1 << 20) text.refuse();
  // M * round_up(ceil(c / M), C) is c rounded up to M * C.
  return {
      text.text(), "CUTLASS 4.7",
      fmt::format(
          "grouped product: sum of {} * round_up(ceil(rows / {}), {}); metadata 4 (E + 1) of offsets, the "
          "sort's order not counted",
          rows, rows, cluster),
      [multiple = rows * cluster](const BatchRows& batch) {
        return keep_all(batch, batch.rounded_up(multiple), grouped_offsets_bytes(batch.experts()));
      }};
}

Policy make_align(const PolicyText& text, const ModelShape&) {
  text.expect_words(1, 1);
  const std::int64_t multiple = text.size_from(text.word(0));
  const char* use = multiple == 16    ? " (TransformerEngine fp8)"
                    : multiple == 32  ? " (MXFP8)"
                    : multiple == 128 ? " (NVFP4 in TransformerEngine)"
                    : multiple == 256 ? " (TransformerEngine's grouped-tensor path)"
                                      : "";
  return {text.text(),
          *use == '\0'     ? "no known system"
          : multiple == 32 ? "MXFP8"
                           : "TransformerEngine",
          rounded(multiple) + use + "; metadata 4 T (2 E + 1), TransformerEngine's row map (needs tokens)",
          [multiple](const BatchRows& batch) {
            PolicyCost cost = keep_all(batch, batch.rounded_up(multiple));
            if (batch.tokens() > 0)
              cost.metadata_bytes = transformer_engine_metadata_bytes(batch.tokens(), batch.experts());
            return cost;
          }};
}

Policy make_dropless(const PolicyText& text, const ModelShape&) {
  text.expect_words(0, 2);
  const auto is_path = [](const std::string& word) { return word == "sm90" || word == "portable"; };
  const auto is_product = [](const std::string& word) { return word == "up" || word == "down"; };
  if (text.size() == 1 && !is_path(text.word(0)) && !is_product(text.word(0))) text.refuse();
  if (text.size() == 2 && !(is_path(text.word(0)) && is_product(text.word(1)))) text.refuse();
  // Paths cut rows at other heights, but all of them in the same steps, and so schedule the same rows.
  constexpr RowTileRule rule{};
  return {
      text.text(), "this version",
      fmt::format(
          "{}: on Hopper tiles of at most {} rows, in steps of {} on every path and for every product "
          "(row_tiles.hpp); "
          "metadata 8 A + 8 E + 4 + 16 for each of at most min(A, E) + A / {} tiles, A = T top_k (n where "
          "tokens are unknown)",
          rounded(rule.granule), tallest_tile_rows(rule), rule.granule, rule.tile_rows),
      [](const BatchRows& batch) {
        const std::int64_t assignments = std::max(batch.rows(), batch.tokens() * batch.top_k());
        // The sum of scheduled_rows() over experts.
        return keep_all(batch, batch.rounded_up(RowTileRule{}.granule),
                        packed_metadata_bytes(assignments, batch.experts(), {}));
      }};
}

}  // namespace dropless
