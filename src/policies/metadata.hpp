// Bytes of routing metadata that each system builds for a batch and keeps for its products, by the formulas
// of their sources. n = rows, T = tokens, E = experts. (MegaBlocks' formula stands in block_topology.hpp.)
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"
#include "dropless/row_tiles.hpp"

namespace dropless {

/// This library's packed topology, what topology_metadata_bytes() says of these bounds: rows per expert 4 E,
/// offsets 4 (E + 1), both orders 8 A for A assignments (those that are no row included), 16 for every tile
/// that A rows may need, two small arrays of counters; each array in whole 16 bytes.
constexpr std::int64_t packed_metadata_bytes(std::int64_t assignments, std::int64_t experts,
                                             RowTileRule rule) {
  return round_up(4 * experts, 16) + round_up(4 * (experts + 1), 16) + 2 * round_up(4 * assignments, 16) +
         16 * row_tile_bound(assignments, experts, rule) + 2 * 16;
}

/// vLLM 2025-08, P = n + E (B - 1) rounded up to B: sorted ids 4 P, an expert for each block 4 P / B, the
/// padded count 4, offsets 4 (E + 1).
constexpr std::int64_t vllm_metadata_bytes(std::int64_t rows, std::int64_t experts, std::int64_t block) {
  const std::int64_t padded = round_up(rows + experts * (block - 1), block);
  return 4 * padded + 4 * (padded / block) + 4 + 4 * (experts + 1);
}

/// SonicMoE 2025-12: 12 n + 4 T + 8 (E + 1).
constexpr std::int64_t sonic_metadata_bytes(std::int64_t rows, std::int64_t tokens, std::int64_t experts) {
  return 12 * rows + 4 * tokens + 8 * (experts + 1);
}

/// ScatterMoE 0.3: 16 n + 8 E.
constexpr std::int64_t scattermoe_metadata_bytes(std::int64_t rows, std::int64_t experts) {
  return 16 * rows + 8 * experts;
}

/// TransformerEngine's row map: 4 T (2 E + 1).
constexpr std::int64_t transformer_engine_metadata_bytes(std::int64_t tokens, std::int64_t experts) {
  return 4 * tokens * (2 * experts + 1);
}

/// TensorRT-LLM: 72 n + 8 (E + 1).
constexpr std::int64_t tensorrt_llm_metadata_bytes(std::int64_t rows, std::int64_t experts) {
  return 72 * rows + 8 * (experts + 1);
}

/// Tutel: 8 n E of temporaries.
constexpr std::int64_t tutel_metadata_bytes(std::int64_t rows, std::int64_t experts) {
  return 8 * rows * experts;
}

/// torch and other grouped products: offsets 4 (E + 1); the order of the sort lies beside them and is not
/// counted.
constexpr std::int64_t grouped_offsets_bytes(std::int64_t experts) { return 4 * (experts + 1); }

}  // namespace dropless
