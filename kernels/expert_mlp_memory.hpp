// The memory of an expert layer's calls: what forward saves for backward, and what each call works in. One
// description gives both the bytes that a caller is asked for and the pointers that a call uses.
#pragma once
#include <cstdint>

#include "device_memory_layout.hpp"
#include "dropless/expert_mlp.hpp"

namespace dropless {

/// The row matrices that a call works in, in elements of the layer's type; null where a call has none.
struct LayerScratch {
  void* rows = nullptr;             ///< [rows, d_model]: gathered tokens, y, or gradients of rows
  void* hidden = nullptr;           ///< [rows, d_ff], or [rows, up.n] of forward that saves nothing
  void* hidden_gradient = nullptr;  ///< [rows, up.n]: backward's dp
};

/// Rows of scratch begin on 16 bytes, so that chunk accesses and tensor maps reach them.
constexpr std::int64_t scratch_pitch(std::int64_t columns) { return round_up(columns, 8); }

inline LayerScratch lay_out_scratch(DeviceMemoryLayout& layout, std::int64_t rows, std::int64_t rows_columns,
                                    std::int64_t hidden_columns, std::int64_t hidden_gradient_columns) {
  const auto matrix = [&](std::int64_t columns) -> void* {
    return columns == 0 ? nullptr
                        : layout.array<std::uint16_t>(
                              checked_product(rows, scratch_pitch(columns), "the rows of the layer"));
  };
  LayerScratch scratch;
  scratch.rows = matrix(rows_columns);
  scratch.hidden = matrix(hidden_columns);
  scratch.hidden_gradient = matrix(hidden_gradient_columns);
  return scratch;
}

/// Forward that saves keeps p for backward and has h apart; else h takes p's place.
inline LayerScratch forward_scratch(DeviceMemoryLayout& layout, const ExpertMlp& mlp, std::int64_t rows,
                                    bool needs_rows, bool saves) {
  return lay_out_scratch(layout, rows, needs_rows ? mlp.up.k : 0, saves ? mlp.down.k : mlp.up.n, 0);
}
inline LayerScratch backward_scratch(DeviceMemoryLayout& layout, const ExpertMlp& mlp, std::int64_t rows,
                                     bool needs_rows) {
  return lay_out_scratch(layout, rows, needs_rows ? mlp.up.k : 0, mlp.down.k, mlp.up.n);
}

/// Forward from tokens: the topology lies here where nothing is saved.
struct ForwardMemory {
  void* metadata = nullptr;
  void* topology_workspace = nullptr;
  LayerScratch scratch;
};
inline ForwardMemory lay_out_forward(DeviceMemoryLayout& layout, const ExpertMlp& mlp,
                                     const TopologyBounds& bounds, bool saves) {
  ForwardMemory memory;
  if (!saves)
    memory.metadata = layout.array<unsigned char>(static_cast<std::int64_t>(topology_metadata_bytes(bounds)));
  memory.topology_workspace =
      layout.array<unsigned char>(static_cast<std::int64_t>(topology_workspace_bytes(bounds)));
  memory.scratch = forward_scratch(layout, mlp, bounds.tokens * bounds.top_k, true, saves);
  return memory;
}

/// What forward from tokens saves: the topology's metadata, and p from a multiple of 256 bytes on.
inline std::int64_t saved_pre_activation_offset(const TopologyBounds& bounds) {
  return round_up(static_cast<std::int64_t>(topology_metadata_bytes(bounds)), 256);
}
inline std::int64_t pre_activation_bytes(const ExpertMlp& mlp, std::int64_t rows) {
  return checked_product(checked_product(rows, mlp.up.n, "rows * mlp.up.n"), element_bytes(mlp.up.type),
                         "rows * mlp.up.n");
}

}  // namespace dropless
