// The first half of an expert layer as one product: rows are gathered from the tokens as they are loaded, and
// bias and activation are applied before h is stored, so that neither the gathered rows nor (unless backward
// needs it) the pre-activation pass through memory.
#pragma once
#include "dropless/activation.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/mlp_kind.hpp"

namespace dropless {

/// p[r, :] = scale[r] * (x[token of r, :] W[e]) + bias[e]; h[r, :] = activation(p[r, :]), for every row r of
/// every expert e, without widths.
struct FusedUp {
  ExpertRows rows;
  RowsView x;                             // [tokens, k], or rows where there is no row_to_assignment
  const std::int32_t* row_to_assignment;  // token of row r = row_to_assignment[r] / top_k; null: rows of x
  std::int32_t top_k;
  std::int64_t tokens;    // rows of x
  const float* scales;    // by assignment (by row without row_to_assignment); null: ones
  ExpertWeights weights;  // the up matrices; n = up_columns(kind, d_ff)
  const void* bias;       // [experts, n] of the element type; null: none
  MlpKind kind;
  Activation activation;
  MutableRowsView pre_activation;  // p: [rows, n]; data null: not kept
  MutableRowsView h;               // [rows, d_ff]
  int multiprocessors;             // the most thread blocks of a persistent grid, one each
};

/// Whether the Hopper kernel can run this; where not, the layer is composed of single calls.
bool sm90_can_run(const FusedUp& product);
void launch_sm90(const FusedUp& product, Stream stream);

}  // namespace dropless
