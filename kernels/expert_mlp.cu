// The public calls of the expert layer: arguments are checked, memory is laid out, and a pass over rows
// computes.
#include "dropless/expert_mlp.hpp"

#include "expert_mlp_checks.hpp"
#include "expert_mlp_layer.hpp"
#include "topology_view.hpp"

namespace dropless {
namespace {

using namespace expert_mlp_checks;

/// From rows, y has scratch of its own only where a second pass must add it to what is there.
bool forward_needs_rows(const ExpertMlp& mlp, const ExpertMlpOptions& options) {
  return options.accumulate && down_needs_finish(mlp, options);
}
/// From rows, x by row is the caller's unless its rows are weighed.
bool backward_needs_rows(const ExpertMlpOptions& options) {
  return options.weight_place == RoutingWeightPlace::input;
}

/// The caller's rows, with their counter only where this call alone may use it.
LayerRows rows_of_caller(ExpertRows rows, const ExpertMlpOptions& options) {
  if (!options.exclusive_rows) rows.tile_counter = nullptr;
  return {rows};
}

/// The memory, once it is known to hold what is needed; throws Error naming `argument` where it does not.
DeviceMemoryLayout layout_over(const DeviceMemory& memory, std::size_t needed, const char* argument) {
  return DeviceMemoryLayout(memory.data, memory.bytes, needed, argument);
}

/// Where p lies in what forward from tokens saves.
void* saved_pre_activation(const DeviceMemory& saved, const TopologyBounds& bounds) {
  return static_cast<char*>(saved.data) + saved_pre_activation_offset(bounds);
}

LayerRows rows_of(const Topology& topology) {
  return {topology.expert_rows(), topology.row_order(), topology.row_to_assignment};
}

}  // namespace

std::size_t expert_mlp_saved_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds) {
  check_mlp(mlp);
  const std::int64_t rows = check_bounds(mlp, bounds);
  return static_cast<std::size_t>(
      checked_sum(saved_pre_activation_offset(bounds), pre_activation_bytes(mlp, rows), "rows * mlp.up.n"));
}

std::size_t expert_mlp_forward_workspace_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds,
                                               const ExpertMlpOptions& options, bool saves) {
  check_mlp(mlp);
  check_options(options);
  check_bounds(mlp, bounds);
  DeviceMemoryLayout layout;
  lay_out_forward(layout, mlp, bounds, saves);
  return layout.used();
}

std::size_t expert_mlp_backward_workspace_bytes(const ExpertMlp& mlp, const TopologyBounds& bounds,
                                                const ExpertMlpOptions& options) {
  check_mlp(mlp);
  check_options(options);
  DeviceMemoryLayout layout;
  backward_scratch(layout, mlp, check_bounds(mlp, bounds), true);
  return layout.used();
}

Topology expert_mlp_forward(const ExpertMlp& mlp, const ExpertMlpBatch& batch, const MutableRowsView& out,
                            const ExpertMlpOptions& options, DeviceMemory saved, DeviceMemory workspace,
                            Stream stream) {
  const TopologyBounds& bounds = batch.bounds;
  const bool saves = saved.data != nullptr;
  Operands operands = check_batch(mlp, batch, options);
  operands.writes("out", Operands::rows("out", out, bounds.tokens, mlp.down.n, mlp.up.type));
  operands.writes_memory("saved", saved);
  operands.writes_memory("workspace", workspace);
  operands.check();
  if (saves) layout_over(saved, expert_mlp_saved_bytes(mlp, bounds), "saved");
  DeviceMemoryLayout layout =
      layout_over(workspace, expert_mlp_forward_workspace_bytes(mlp, bounds, options, saves), "workspace");
  const ForwardMemory memory = lay_out_forward(layout, mlp, bounds, saves);

  void* const metadata = saves ? saved.data : memory.metadata;
  const std::size_t metadata_bytes = topology_metadata_bytes(bounds);
  const Topology topology = topology_view(bounds, metadata, metadata_bytes);
  const Layer layer{mlp, options, rows_of(topology), batch.routing_weights, batch.x, stream};
  const ForwardPass pass(layer, out, saves, saves ? saved_pre_activation(saved, bounds) : nullptr,
                         memory.scratch);
  build_topology(batch.ids, bounds, metadata, metadata_bytes, memory.topology_workspace,
                 topology_workspace_bytes(bounds), stream);
  pass.run();
  return topology;
}

void expert_mlp_backward(const ExpertMlp& mlp, const ExpertMlpBatch& batch, const RowsView& out_gradient,
                         const ExpertMlpGradients& gradients, const ExpertMlpOptions& options,
                         DeviceMemory saved, DeviceMemory workspace, Stream stream) {
  const TopologyBounds& bounds = batch.bounds;
  Operands operands = check_batch(mlp, batch, options);
  operands.reads("out_gradient",
                 Operands::rows("out_gradient", out_gradient, bounds.tokens, mlp.down.n, mlp.up.type));
  operands.reads_memory("saved", saved);
  check_gradients(operands, mlp, gradients, options, bounds.tokens, bounds.tokens * bounds.top_k);
  operands.writes_memory("workspace", workspace);
  operands.check();
  layout_over(saved, expert_mlp_saved_bytes(mlp, bounds), "saved");
  DeviceMemoryLayout layout =
      layout_over(workspace, expert_mlp_backward_workspace_bytes(mlp, bounds, options), "workspace");
  const LayerScratch scratch = backward_scratch(layout, mlp, bounds.tokens * bounds.top_k, true);

  const Topology topology = topology_view(bounds, saved.data, topology_metadata_bytes(bounds));
  const Layer layer{mlp, options, rows_of(topology), batch.routing_weights, batch.x, stream};
  BackwardPass(layer, out_gradient, gradients,
               read_only(layer.pre_activation(saved_pre_activation(saved, bounds))), scratch)
      .run();
}

std::size_t expert_mlp_rows_saved_bytes(const ExpertMlp& mlp, const ExpertRows& rows) {
  check_mlp(mlp);
  return static_cast<std::size_t>(pre_activation_bytes(mlp, rows.rows_bound));
}

std::size_t expert_mlp_rows_forward_workspace_bytes(const ExpertMlp& mlp, const ExpertRows& rows,
                                                    const ExpertMlpOptions& options, bool saves) {
  check_mlp(mlp);
  check_options(options);
  DeviceMemoryLayout layout;
  forward_scratch(layout, mlp, rows.rows_bound, forward_needs_rows(mlp, options), saves);
  return layout.used();
}

std::size_t expert_mlp_rows_backward_workspace_bytes(const ExpertMlp& mlp, const ExpertRows& rows,
                                                     const ExpertMlpOptions& options) {
  check_mlp(mlp);
  check_options(options);
  DeviceMemoryLayout layout;
  backward_scratch(layout, mlp, rows.rows_bound, backward_needs_rows(options));
  return layout.used();
}

void expert_mlp_rows_forward(const ExpertMlp& mlp, const ExpertMlpRows& rows, const MutableRowsView& y,
                             const ExpertMlpOptions& options, DeviceMemory saved, DeviceMemory workspace,
                             Stream stream) {
  const std::int64_t bound = rows.rows.rows_bound;
  const bool saves = saved.data != nullptr;
  Operands operands = check_batch(mlp, rows, options);
  operands.writes("y", Operands::rows("y", y, bound, mlp.down.n, mlp.up.type));
  operands.writes_memory("saved", saved);
  operands.writes_memory("workspace", workspace);
  operands.check();
  if (saves) layout_over(saved, expert_mlp_rows_saved_bytes(mlp, rows.rows), "saved");
  DeviceMemoryLayout layout = layout_over(
      workspace, expert_mlp_rows_forward_workspace_bytes(mlp, rows.rows, options, saves), "workspace");
  const LayerScratch scratch = forward_scratch(layout, mlp, bound, forward_needs_rows(mlp, options), saves);
  const Layer layer{mlp, options, rows_of_caller(rows.rows, options), rows.row_weights, rows.x, stream};
  ForwardPass(layer, y, saves, saved.data, scratch).run();
}

void expert_mlp_rows_backward(const ExpertMlp& mlp, const ExpertMlpRows& rows, const RowsView& y_gradient,
                              const ExpertMlpGradients& gradients, const ExpertMlpOptions& options,
                              DeviceMemory saved, DeviceMemory workspace, Stream stream) {
  const std::int64_t bound = rows.rows.rows_bound;
  Operands operands = check_batch(mlp, rows, options);
  operands.reads("y_gradient", Operands::rows("y_gradient", y_gradient, bound, mlp.down.n, mlp.up.type));
  operands.reads_memory("saved", saved);
  check_gradients(operands, mlp, gradients, options, bound, bound);
  operands.writes_memory("workspace", workspace);
  operands.check();
  layout_over(saved, expert_mlp_rows_saved_bytes(mlp, rows.rows), "saved");
  DeviceMemoryLayout layout =
      layout_over(workspace, expert_mlp_rows_backward_workspace_bytes(mlp, rows.rows, options), "workspace");
  const LayerScratch scratch = backward_scratch(layout, mlp, bound, backward_needs_rows(options));
  const Layer layer{mlp, options, rows_of_caller(rows.rows, options), rows.row_weights, rows.x, stream};
  BackwardPass(layer, y_gradient, gradients, read_only(layer.pre_activation(saved.data)), scratch).run();
}

}  // namespace dropless
