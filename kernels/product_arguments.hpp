// What every kernel path receives once a product's arguments were checked: plain values, the same for all
// paths. The public calls (expert_products.cu) check and translate; a path only computes.
#pragma once
#include "dropless/expert_products.hpp"

namespace dropless {

/// Whether two tensors share the d_ff dimension.
DROPLESS_HOST_DEVICE constexpr bool has_second(const ExpertWeights& weights) {
  return weights.second.data != nullptr || weights.second.matrices != nullptr;
}

/// rows x weights: out[r, 0..n_e) (+)= in[r, 0..k_e) W[e], for every row r of every expert e.
struct RowsByWeights {
  ExpertRows rows;
  RowsView in;
  ExpertWeights weights;
  MutableRowsView out;
  bool split_n;   // weights.second continues n (sdd) rather than k (dsd)
  bool ragged_n;  // weights.widths narrow n (sdd) rather than k (dsd)
  bool accumulate;
  int multiprocessors;  // the most thread blocks of a persistent grid, one each
};

/// rows^T x rows: dw[e] (+)= a[rows of e]^T b[rows of e].
struct RowsTransposedByRows {
  ExpertRows rows;
  RowsView a, b;
  ExpertGradients dw;
  bool accumulate;
  int multiprocessors;
};

void launch_portable(const RowsByWeights& product, Stream stream);
void launch_portable(const RowsTransposedByRows& product, Stream stream);

/// Whether the Hopper kernels can address these operands (element type, pitch and base alignment, widths).
bool sm90_can_run(const RowsByWeights& product);
bool sm90_can_run(const RowsTransposedByRows& product);
void launch_sm90(const RowsByWeights& product, Stream stream);
void launch_sm90(const RowsTransposedByRows& product, Stream stream);

}  // namespace dropless
