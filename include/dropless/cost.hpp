// What rows cost: FLOPs and bytes of an expert layer's products, and the roofline they stand under. Counts
// are exact integers; one that passes 2^63 - 1 is refused with an Error.
#pragma once
#include <cstdint>

#include "dropless/element_type.hpp"
#include "dropless/mlp_kind.hpp"

namespace dropless {

/// FLOPs of `rows` rows through one expert MLP, forward: 4 * rows * d_model * d_ff (linear2) or
/// 6 * rows * d_model * d_ff (glu). A multiply-add is two FLOPs; the activation is not counted.
std::int64_t mlp_flops(MlpKind kind, std::int64_t rows, std::int64_t d_model, std::int64_t d_ff);

/// Bytes of one expert's weights: 2 (linear2) or 3 (glu) matrices of d_model * d_ff elements.
std::int64_t expert_weight_bytes(MlpKind kind, std::int64_t d_model, std::int64_t d_ff, ElementType dtype);

/// One product of all experts together, [rows, k] x [k, n] with one weight matrix an active expert.
struct ProductCost {
  std::int64_t flops = 0;             ///< 2 * rows * k * n
  std::int64_t weight_bytes = 0;      ///< active_experts * k * n elements: every active expert's weights once
  std::int64_t activation_bytes = 0;  ///< rows * (k + n) elements: each row read once and written once

  std::int64_t bytes() const { return weight_bytes + activation_bytes; }
  /// FLOPs a byte; 0 where no byte moves.
  double intensity() const;
};

/// rows, active_experts (experts with a row) >= 0; k, n >= 1.
ProductCost product_cost(std::int64_t rows, std::int64_t active_experts, std::int64_t k, std::int64_t n,
                         ElementType dtype);

/// The two forward products of an expert layer: up is [rows, d_model] x [d_model, up_columns], down is
/// [rows, d_ff] x [d_ff, d_model].
ProductCost up_product_cost(MlpKind kind, std::int64_t rows, std::int64_t active_experts,
                            std::int64_t d_model, std::int64_t d_ff, ElementType dtype);
ProductCost down_product_cost(std::int64_t rows, std::int64_t active_experts, std::int64_t d_model,
                              std::int64_t d_ff, ElementType dtype);

/// The roofline (Williams, Waterman, Patterson 2009): attainable GFLOP/s = min(peak, intensity * bandwidth),
/// with intensity in FLOPs a byte, bandwidth in GB/s and peak in GFLOP/s, each > 0.
double attainable_gflops(double intensity, double bandwidth, double peak);

}  // namespace dropless
