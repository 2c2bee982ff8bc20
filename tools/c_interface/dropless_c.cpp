// The C interface over the C++ one: structures are copied field by field, exceptions become result codes and
// a sentence kept for the calling thread.
#include "dropless/dropless_c.h"

#include <exception>
#include <new>
#include <string>

#include "dropless/error.hpp"
#include "dropless/expert_mlp.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/topology.hpp"

namespace {

using namespace dropless;

thread_local std::string last_error;

dropless_result failed(dropless_result result, const char* sentence) noexcept {
  try {
    last_error = sentence;
  } catch (const std::bad_alloc&) {
    last_error.clear();
  }
  return result;
}

/// Runs `body`; no exception leaves it.
template <class Body>
dropless_result guarded(Body&& body) noexcept {
  try {
    body();
    return DROPLESS_OK;
  } catch (const CudaError& error) {
    return failed(DROPLESS_CUDA_ERROR, error.what());
  } catch (const Error& error) {
    return failed(DROPLESS_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return failed(DROPLESS_INTERNAL_ERROR, error.what());
  } catch (...) {
    return failed(DROPLESS_INTERNAL_ERROR, "an exception of unknown type");
  }
}

template <class Type>
Type& required(Type* pointer, const char* argument) {
  if (pointer == nullptr) throw Error(argument, "null", "a pointer");
  return *pointer;
}

/// An enumerator from its number, which lies in [0, count).
template <class Enumeration>
Enumeration enumerator(std::int32_t number, std::int32_t count, const char* argument) {
  if (number < 0 || number >= count)
    throw Error(argument, std::to_string(number), "0.." + std::to_string(count - 1));
  return static_cast<Enumeration>(number);
}

/// Options in which all is 0 are the default ones, and so are none.
template <class Options>
Options or_default(const Options* options) {
  return options != nullptr ? *options : Options{};
}

ElementType element_type(std::int32_t number) { return enumerator<ElementType>(number, 3, "element_type"); }

RowTileRule from_c(const dropless_row_tile_rule& rule) {
  if (rule.tile_rows == 0 && rule.granule == 0) return {};
  return {rule.tile_rows, rule.granule};
}
dropless_row_tile_rule to_c(const RowTileRule& rule) { return {rule.tile_rows, rule.granule}; }

TopologyBounds from_c(const dropless_topology_bounds& bounds) {
  return {bounds.tokens, bounds.top_k, bounds.experts, from_c(bounds.tile_rule)};
}

RouterIds from_c(const dropless_router_ids& ids) {
  return {ids.data, ids.is_int64 != 0, ids.global_experts, ids.first_expert, ids.expert_map};
}

ExpertRows from_c(const dropless_expert_rows& rows) {
  ExpertRows result;
  result.experts = rows.experts;
  result.rows_bound = rows.rows_bound;
  result.row_begin = rows.row_begin;
  result.row_count = rows.row_count;
  result.tiles = static_cast<const RowTile*>(rows.tiles);
  result.tile_count = rows.tile_count;
  result.tile_counter = rows.tile_counter;
  result.tile_bound = rows.tile_bound;
  result.tile_rule = from_c(rows.tile_rule);
  return result;
}
dropless_expert_rows to_c(const ExpertRows& rows) {
  return {rows.experts,    rows.rows_bound,   rows.row_begin,  rows.row_count,      rows.tiles,
          rows.tile_count, rows.tile_counter, rows.tile_bound, to_c(rows.tile_rule)};
}

static_assert(sizeof(dropless_topology_status) == sizeof(TopologyStatus));

dropless_topology to_c(const Topology& topology) {
  const TopologyBounds& bounds = topology.bounds;
  return {{bounds.tokens, bounds.top_k, bounds.experts, to_c(bounds.tile_rule)},
          topology.assignments,
          topology.rows_per_expert,
          topology.row_offsets,
          topology.row_to_assignment,
          topology.assignment_to_row,
          reinterpret_cast<const dropless_topology_status*>(topology.status),
          to_c(topology.expert_rows())};
}
Topology from_c(const dropless_topology& topology) {
  Topology result;
  result.bounds = from_c(topology.bounds);
  result.assignments = topology.assignments;
  result.rows_per_expert = topology.rows_per_expert;
  result.row_offsets = topology.row_offsets;
  result.row_to_assignment = topology.row_to_assignment;
  result.assignment_to_row = topology.assignment_to_row;
  result.tiles = static_cast<const RowTile*>(topology.rows.tiles);
  result.tile_count = topology.rows.tile_count;
  result.tile_counter = topology.rows.tile_counter;
  result.status = reinterpret_cast<const TopologyStatus*>(topology.status);
  return result;
}

RowsView input_from_c(const dropless_rows_view& view) {
  return {view.data, view.leading_dimension, element_type(view.element_type)};
}
MutableRowsView output_from_c(const dropless_rows_view& view) {
  return {view.data, view.leading_dimension, element_type(view.element_type)};
}

WeightTensor from_c(const dropless_weight_tensor& tensor) {
  return {tensor.data, tensor.expert_stride, tensor.matrices, {}};
}

ExpertWeights from_c(const dropless_expert_weights& weights) {
  ExpertWeights result;
  result.type = element_type(weights.element_type);
  result.experts = weights.experts;
  result.k = weights.k;
  result.n = weights.n;
  result.order = enumerator<WeightOrder>(weights.order, 2, "order");
  result.leading_dimension = weights.leading_dimension;
  result.first = from_c(weights.first);
  result.second = from_c(weights.second);
  result.widths = {weights.d_ff, weights.d_ff_begin};
  return result;
}

ExpertGradients from_c(const dropless_expert_gradients& gradients) {
  ExpertGradients result;
  result.type = element_type(gradients.element_type);
  result.experts = gradients.experts;
  result.m = gradients.m;
  result.n = gradients.n;
  result.leading_dimension = gradients.leading_dimension;
  result.expert_stride = gradients.expert_stride;
  result.data = gradients.data;
  result.matrices = gradients.matrices;
  return result;
}

ProductOptions from_c(const dropless_product_options& options) {
  return {options.accumulate != 0, options.sm_limit, enumerator<KernelPath>(options.path, 3, "path"),
          options.exclusive_rows != 0};
}

Activation from_c(const dropless_activation& activation) {
  Activation result;
  result.function = enumerator<ActivationFunction>(activation.function, 5, "activation.function");
  if (activation.alpha != 0) result.alpha = activation.alpha;
  if (activation.limit != 0) result.limit = activation.limit;
  result.up_offset = activation.up_offset;
  return result;
}

ExpertMlp from_c(const dropless_expert_mlp& mlp) {
  return {enumerator<MlpKind>(mlp.kind, 2, "kind"),
          from_c(mlp.activation),
          from_c(mlp.up),
          from_c(mlp.down),
          mlp.up_bias,
          mlp.down_bias};
}

ExpertMlpOptions from_c(const dropless_expert_mlp_options& options) {
  return {enumerator<RoutingWeightPlace>(options.weight_place, 3, "weight_place"),
          options.output_scale != 0 ? options.output_scale : 1.0f,
          options.accumulate != 0,
          options.sm_limit,
          enumerator<KernelPath>(options.path, 3, "path"),
          options.composed != 0};
}

ExpertMlpBatch from_c(const dropless_expert_mlp_batch& batch) {
  return {from_c(batch.bounds), from_c(batch.ids), batch.routing_weights, input_from_c(batch.x)};
}

ExpertMlpGradients from_c(const dropless_expert_mlp_gradients& gradients) {
  return {output_from_c(gradients.x), from_c(gradients.up), from_c(gradients.up_second),
          from_c(gradients.down),     gradients.up_bias,    gradients.down_bias,
          gradients.routing_weights};
}

DeviceMemory from_c(const dropless_device_memory& memory) { return {memory.data, memory.bytes}; }

/// sdd or dsd, which take the same arguments.
dropless_result rows_by_weights(decltype(sdd)& product, const dropless_expert_rows* rows,
                                const dropless_rows_view* input, const dropless_expert_weights* weights,
                                const dropless_rows_view* output, const dropless_product_options* options,
                                dropless_stream stream) {
  return guarded([&] {
    product(from_c(required(rows, "rows")), input_from_c(required(input, "input rows")),
            from_c(required(weights, "weights")), output_from_c(required(output, "output rows")),
            from_c(or_default(options)), stream);
  });
}

}  // namespace

const char* dropless_version(void) { return DROPLESS_VERSION; }

const char* dropless_last_error(void) { return last_error.c_str(); }

dropless_result dropless_topology_bytes(const dropless_topology_bounds* bounds, size_t* metadata_bytes,
                                        size_t* workspace_bytes) {
  return guarded([&] {
    const TopologyBounds checked = from_c(required(bounds, "bounds"));
    size_t& metadata = required(metadata_bytes, "metadata_bytes");
    size_t& workspace = required(workspace_bytes, "workspace_bytes");
    metadata = topology_metadata_bytes(checked);
    workspace = topology_workspace_bytes(checked);
  });
}

dropless_result dropless_build_topology(const dropless_router_ids* ids,
                                        const dropless_topology_bounds* bounds, void* metadata,
                                        size_t metadata_bytes, void* workspace, size_t workspace_bytes,
                                        dropless_stream stream, dropless_topology* topology) {
  return guarded([&] {
    dropless_topology& result = required(topology, "topology");
    result = to_c(build_topology(from_c(required(ids, "ids")), from_c(required(bounds, "bounds")), metadata,
                                 metadata_bytes, workspace, workspace_bytes, stream));
  });
}

dropless_result dropless_check_topology(const dropless_topology* topology, dropless_stream stream,
                                        dropless_topology_status* status) {
  return guarded([&] {
    dropless_topology_status& result = required(status, "status");
    const TopologyStatus counts = check(from_c(required(topology, "topology")), stream);
    result = {counts.out_of_range, counts.unrouted, counts.non_local, counts.useful_rows};
  });
}

dropless_result dropless_expert_rows_bytes(int64_t experts, int64_t rows_bound,
                                           dropless_row_tile_rule tile_rule, size_t* bytes) {
  return guarded(
      [&] { required(bytes, "bytes") = expert_rows_bytes(experts, rows_bound, from_c(tile_rule)); });
}

dropless_result dropless_prepare_expert_rows(const int32_t* row_begin, const int32_t* row_count,
                                             int64_t experts, int64_t rows_bound, void* memory,
                                             size_t memory_bytes, dropless_stream stream,
                                             dropless_row_tile_rule tile_rule, dropless_expert_rows* rows) {
  return guarded([&] {
    dropless_expert_rows& result = required(rows, "rows");
    result = to_c(prepare_expert_rows(row_begin, row_count, experts, rows_bound, memory, memory_bytes, stream,
                                      from_c(tile_rule)));
  });
}

dropless_result dropless_sdd(const dropless_expert_rows* rows, const dropless_rows_view* x,
                             const dropless_expert_weights* w1, const dropless_rows_view* h,
                             const dropless_product_options* options, dropless_stream stream) {
  return rows_by_weights(sdd, rows, x, w1, h, options, stream);
}

dropless_result dropless_dsd(const dropless_expert_rows* rows, const dropless_rows_view* h,
                             const dropless_expert_weights* w2, const dropless_rows_view* y,
                             const dropless_product_options* options, dropless_stream stream) {
  return rows_by_weights(dsd, rows, h, w2, y, options, stream);
}

dropless_result dropless_weight_gradient(const dropless_expert_rows* rows, const dropless_rows_view* a,
                                         const dropless_rows_view* b, const dropless_expert_gradients* dw,
                                         const dropless_product_options* options, dropless_stream stream) {
  return guarded([&] {
    weight_gradient(from_c(required(rows, "rows")), input_from_c(required(a, "a")),
                    input_from_c(required(b, "b")), from_c(required(dw, "dw")), from_c(or_default(options)),
                    stream);
  });
}

dropless_result dropless_expert_mlp_bytes(const dropless_expert_mlp* mlp,
                                          const dropless_topology_bounds* bounds,
                                          const dropless_expert_mlp_options* options,
                                          dropless_expert_mlp_memory* bytes) {
  return guarded([&] {
    dropless_expert_mlp_memory& result = required(bytes, "bytes");
    const ExpertMlp layer = from_c(required(mlp, "mlp"));
    const TopologyBounds of = from_c(required(bounds, "bounds"));
    const ExpertMlpOptions chosen = from_c(or_default(options));
    result = {expert_mlp_saved_bytes(layer, of), expert_mlp_forward_workspace_bytes(layer, of, chosen, false),
              expert_mlp_forward_workspace_bytes(layer, of, chosen, true),
              expert_mlp_backward_workspace_bytes(layer, of, chosen)};
  });
}

dropless_result dropless_expert_mlp_forward(const dropless_expert_mlp* mlp,
                                            const dropless_expert_mlp_batch* batch,
                                            const dropless_rows_view* out,
                                            const dropless_expert_mlp_options* options,
                                            dropless_device_memory saved, dropless_device_memory workspace,
                                            dropless_stream stream, dropless_topology* topology) {
  return guarded([&] {
    const Topology built = expert_mlp_forward(
        from_c(required(mlp, "mlp")), from_c(required(batch, "batch")), output_from_c(required(out, "out")),
        from_c(or_default(options)), from_c(saved), from_c(workspace), stream);
    if (topology != nullptr) *topology = to_c(built);
  });
}

dropless_result dropless_expert_mlp_backward(const dropless_expert_mlp* mlp,
                                             const dropless_expert_mlp_batch* batch,
                                             const dropless_rows_view* out_gradient,
                                             const dropless_expert_mlp_gradients* gradients,
                                             const dropless_expert_mlp_options* options,
                                             dropless_device_memory saved, dropless_device_memory workspace,
                                             dropless_stream stream) {
  return guarded([&] {
    expert_mlp_backward(from_c(required(mlp, "mlp")), from_c(required(batch, "batch")),
                        input_from_c(required(out_gradient, "out_gradient")),
                        from_c(required(gradients, "gradients")), from_c(or_default(options)), from_c(saved),
                        from_c(workspace), stream);
  });
}
