// Bytes of routing metadata that other systems build for a batch and keep for its products, by the formulas
// of their sources. n = rows, T = tokens, E = experts. (MegaBlocks' formula stands in block_topology.hpp.)
#pragma once
#include <cstdint>

#include "dropless/integer_math.hpp"

namespace dropless {

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
