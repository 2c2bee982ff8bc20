// The expert layer: every token goes through the MLPs of its chosen experts, and comes back as the sum of
// their outputs times the routing weights. Forward and backward are one call each.
//
//   p[r, :] = scale[r] * (x[token of r, :] W_up[e]) + up_bias[e]          the up product of row r, expert e
//   h[r, :] = activation(p[r, :])                                         activation.hpp
//   y[r, :] = h[r, :] W_down[e] + down_bias[e]
//   out[t, :] = output_scale * sum over slots s of weight[t, s] * y[row of (t, s), :]   (+ out[t, :])
//
// scale is 1 unless the routing weight stands on the input; weight is 1 unless it stands on the output.
//
// Promises of every call: work goes to the given stream only; no allocation, no host synchronisation,
// capturable in a CUDA graph and replayable with any ids of the same bounds. Same input, same bits. A token's
// output and input gradient do not depend on the other tokens, bit for bit within one kernel path (weight
// and bias gradients promise run-to-run bits only). Sums are float; h, y and the gradients of rows are kept
// in the element type. Arguments are checked before anything is launched. Operands must not overlap.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/activation.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/expert_rows.hpp"
#include "dropless/mlp_kind.hpp"
#include "dropless/rows_view.hpp"
#include "dropless/stream.hpp"
#include "dropless/topology.hpp"

namespace dropless {

/// The parameters of a layer's experts; device memory of the caller. `up` is k = d_model by n =
/// up_columns(kind, d_ff): for glu the gate's columns, then up's, in one tensor or with `second` as up's own.
/// `down` is k = d_ff by n = d_model. Both have one element type, bf16 or fp16, which is that of every row
/// matrix of the layer. With widths, up.widths.d_ff counts all of an expert's up columns (twice its d_ff for
/// glu), down.widths.d_ff its d_ff. Biases are of the element type, null where the layer has none.
struct ExpertMlp {
  MlpKind kind = MlpKind::glu;
  Activation activation{};
  ExpertWeights up{};
  ExpertWeights down{};
  const void* up_bias = nullptr;    ///< [experts, up.n], in the order of an expert's up columns
  const void* down_bias = nullptr;  ///< [experts, down.n]
};

/// Where a routing weight multiplies. `input` is Llama 4's order: the up product of weight * x.
enum class RoutingWeightPlace : std::int32_t { output, input, none };

struct ExpertMlpOptions {
  RoutingWeightPlace weight_place = RoutingWeightPlace::output;
  float output_scale = 1;
  bool accumulate = false;    ///< forward adds into out (shared experts); backward into the gradients
                              ///< of weights and biases (micro-batches)
  std::int32_t sm_limit = 0;  ///< > 0: the products occupy at most this many multiprocessors
  KernelPath path = KernelPath::automatic;
  /// Forward runs gather, up product and activation as launches of their own, where one kernel could do all
  /// three: to compare the two.
  bool composed = false;
  /// Of calls on rows, as ProductOptions::exclusive_rows of all their products. Calls from tokens lay out
  /// rows of their own.
  bool exclusive_rows = false;
};

/// The tokens of one batch and their routing; device memory.
struct ExpertMlpBatch {
  TopologyBounds bounds;                   ///< experts: as mlp.up.experts
  RouterIds ids;                           ///< [tokens, top_k]
  const float* routing_weights = nullptr;  ///< [tokens, top_k]; null exactly where weight_place is none
  RowsView x;                              ///< [tokens, d_model]
};

/// Bytes of device memory. Workspace is free again once the stream has passed the call. What forward saves
/// for backward is
///   round_up(topology_metadata_bytes(bounds), 256) + rows * up.n * 2,   rows = tokens * top_k,
/// and nothing else: backward recomputes h from it. Inference saves nothing.
std::size_t expert_mlp_saved_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds);
std::size_t expert_mlp_forward_workspace_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds,
                                               const ExpertMlpOptions& options, bool saves);
std::size_t expert_mlp_backward_workspace_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds,
                                                const ExpertMlpOptions& options);

/// Caller's device memory, 16-byte aligned.
struct DeviceMemory {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// out: [tokens, d_model]. A token without rows gets zeros (or keeps its values when accumulating). `saved`
/// with null data: inference. Returns the topology it built, which lives in `saved`, or in `workspace` until
/// that is reused. Ids out of range are skipped and counted: check(topology, stream) tells. Throws Error for
/// operands that do not fit together or memory that is too short.
Topology expert_mlp_forward(const ExpertMlp& mlp, const ExpertMlpBatch& batch, const MutableRowsView& out,
                            const ExpertMlpOptions& options, DeviceMemory saved, DeviceMemory workspace,
                            Stream stream);

/// What backward writes. A null pointer leaves that gradient out. With widths gradients are not stacked: each
/// is of full size, an expert's columns of up (gate, then up, side by side; with `second` each in its own)
/// and rows of down come first, and the rest gets zeros. Biases lie likewise, gate and up side by side.
struct ExpertMlpGradients {
  MutableRowsView x;           ///< [tokens, d_model]; zeros for a token without rows
  ExpertGradients up;          ///< m = d_model, n = up.n, or half of it where up has `second`; zeros for
                               ///< an expert without rows
  ExpertGradients up_second;   ///< where up has `second`: its own tensor, and `up` that of the first
  ExpertGradients down;        ///< m = d_ff, n = d_model
  float* up_bias = nullptr;    ///< [experts, up.n]
  float* down_bias = nullptr;  ///< [experts, down.n]
  float* routing_weights = nullptr;  ///< [tokens, top_k]; zero where the assignment is no row
};

/// The gradients of what forward computed from the same mlp, batch (values too), weight_place and
/// output_scale with this `saved`, which is not changed. out_gradient: [tokens, d_model].
void expert_mlp_backward(const ExpertMlp& mlp, const ExpertMlpBatch& batch, const RowsView& out_gradient,
                         const ExpertMlpGradients& gradients, const ExpertMlpOptions& options,
                         DeviceMemory saved, DeviceMemory workspace, Stream stream);

/// Rows that are in expert order already, for callers with a dispatch of their own.
struct ExpertMlpRows {
  ExpertRows rows;                     ///< of prepare_expert_rows, or a topology's
  const float* row_weights = nullptr;  ///< [rows_bound]; null exactly where weight_place is none
  RowsView x;                          ///< [rows_bound, d_model]
};

/// The same layer from rows to rows, y[r, :] = output_scale * weight[r] * (...) (+ y[r, :]), without topology
/// and combine. What is saved is rows_bound * up.n * 2 bytes. y: [rows_bound, d_model]; only the experts'
/// rows are written.
std::size_t expert_mlp_rows_saved_bytes(const ExpertMlp& mlp, const ExpertRows& rows);
std::size_t expert_mlp_rows_forward_workspace_bytes(const ExpertMlp& mlp, const ExpertRows& rows,
                                                    const ExpertMlpOptions& options, bool saves);
std::size_t expert_mlp_rows_backward_workspace_bytes(const ExpertMlp& mlp, const ExpertRows& rows,
                                                     const ExpertMlpOptions& options);
void expert_mlp_rows_forward(const ExpertMlp& mlp, const ExpertMlpRows& rows, const MutableRowsView& y,
                             const ExpertMlpOptions& options, DeviceMemory saved, DeviceMemory workspace,
                             Stream stream);
/// y_gradient: [rows_bound, d_model]. Of the gradients, x is [rows_bound, d_model] and routing_weights is
/// [rows_bound]; both are written for the experts' rows only.
void expert_mlp_rows_backward(const ExpertMlp& mlp, const ExpertMlpRows& rows, const RowsView& y_gradient,
                              const ExpertMlpGradients& gradients, const ExpertMlpOptions& options,
                              DeviceMemory saved, DeviceMemory workspace, Stream stream);

}  // namespace dropless
