// The first half of an expert layer as one product: rows may be gathered from the tokens as they are loaded,
// and bias and activation are applied before h is stored, so that neither the gathered rows nor (unless
// backward needs it) the pre-activation pass through memory.
#pragma once
#include "dropless/activation.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/mlp_kind.hpp"

namespace dropless {

/// p[r, :] = scale[r] * (x[token of r, :] W[e]) + bias[e]; h[r, :] = activation(p[r, :]), for every row r of
/// every expert e, without widths.
struct FusedUp {
  ExpertRows rows;
  RowsView x;  // where `gathers`: [tokens, k], and row r's token is row_to_assignment[r] / top_k;
               // else the rows: [rows, k]
  bool gathers;
  std::int64_t tokens;  // rows of x where `gathers`
  std::int32_t top_k;
  const std::int32_t* row_to_assignment;  // null: assignments are rows
  const float* scales;                    // by assignment; null: ones
  ExpertWeights weights;                  // the up matrices; n = up_columns(kind, d_ff)
  const void* bias;                       // [experts, n] of the element type; null: none
  MlpKind kind;
  Activation activation;
  MutableRowsView pre_activation;  // p: [rows, n]; data null: not kept
  MutableRowsView h;               // [rows, d_ff]
  int multiprocessors;             // the most thread blocks of a persistent grid, one each
};

/// Whether to fuse, and with or without the gather; from host-known bounds, and without a trace in the
/// result: fused or composed, the bits are the same. Measured on an H200 over forward of whole layers: fusing
/// gains 2 to 11 %, by what the activation's pass over p costs. At decode, where it costs nearly nothing, and
/// with many rows of k 4096 and more, where products take nearly all of the time, fusing loses as much. The
/// gather inside gains 2 to 7 % where weights bound the time and each token goes to several experts; where
/// the tensor cores do, its copies slow them.
enum class UpFusion { none, rows_in_order, gathering };
constexpr UpFusion up_fusion(std::int64_t rows_bound, std::int64_t experts, std::int64_t k,
                             std::int64_t top_k) {
  if (rows_bound < 32 * experts || (k >= 4096 && rows_bound >= 256 * experts)) return UpFusion::none;
  return top_k > 1 && rows_bound <= 128 * experts ? UpFusion::gathering : UpFusion::rows_in_order;
}

/// Whether the Hopper kernel can run this; where not, the layer is composed of single calls.
bool sm90_can_run(const FusedUp& product);
void launch_sm90(const FusedUp& product, Stream stream);

}  // namespace dropless
