// A layer's experts on the GPU, twice: over packed rows, which is what to use for MoE layers, and as
// block-sparse products in the MegaBlocks style. All memory is the caller's, and nothing in the two functions
// waits.
#include "device_values.cuh"
#include "dropless/device_block_topology.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/permutation.hpp"
#include "gpu_exit_code.hpp"
#include "toy_layer.hpp"

namespace {

using namespace dropless;
using namespace toy;

constexpr ElementType bf16 = ElementType::bf16;

/// Device memory of one layer: x and y [tokens, d_model]; w1 and w2 [experts, d_ff, d_model].
struct Layer {
  const float* routing_weights;  ///< [tokens, top_k]
  void *x, *w1, *w2, *y;
};

/// Device memory in between: x_rows and y_rows [rows, d_model], h [rows, d_ff] or the blocks' values.
struct Scratch {
  void *x_rows, *h, *y_rows;
};

__global__ void relu_kernel(std::uint16_t* values, std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && values[i] >= 0x8000) values[i] = 0;  // the sign is the highest bit
}

void relu(void* values, std::int64_t count, Stream stream) {
  relu_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(
      static_cast<std::uint16_t*>(values), count);
}

// Packed: rows of all experts back to back, no padding. A row is multiplied by its own expert's matrices.
void packed_layer(const Topology& topology, const Layer& layer, const Scratch& scratch, Stream stream) {
  const ExpertRows rows = topology.expert_rows();
  const WeightTensor w1{layer.w1, expert_elements}, w2{layer.w2, expert_elements};
  const ExpertWeights up{bf16, experts, d_model, d_ff, WeightOrder::n_by_k, d_model, w1};
  const ExpertWeights down{bf16, experts, d_ff, d_model, WeightOrder::k_by_n, d_model, w2};

  gather(topology.row_order(), {layer.x, d_model}, {scratch.x_rows, d_model}, d_model, stream);
  sdd(rows, {scratch.x_rows, d_model}, up, {scratch.h, d_ff}, {}, stream);
  relu(scratch.h, assignments * d_ff, stream);
  dsd(rows, {scratch.h, d_ff}, down, {scratch.y_rows, d_model}, {}, stream);
  combine(topology.row_order(), {scratch.y_rows, d_model}, layer.routing_weights, {layer.y, d_model}, d_model,
          /*accumulate=*/false, stream);
}

// Blocked: each expert's rows rounded up to the block with zero rows; h is a block-sparse matrix.
void blocked_layer(const DeviceBlockTopology& topology, const Layer& layer, const Scratch& scratch,
                   Stream stream) {
  const std::int64_t rows = topology.block_rows_bound * topology.block, features = experts * d_ff;
  const DenseMatrix x_rows{scratch.x_rows, rows, d_model, d_model},
      y_rows{scratch.y_rows, rows, d_model, d_model};
  const DenseMatrix w1{layer.w1, features, d_model, d_model}, w2{layer.w2, features, d_model, d_model};
  const BlockSparseMatrix h = topology.matrix(bf16, scratch.h);

  gather(topology.row_order(), {layer.x, d_model}, {scratch.x_rows, d_model}, d_model, stream);
  clear_padding_rows(topology, {scratch.x_rows, d_model}, d_model, stream);
  sdd(x_rows, transposed(w1), h, stream);
  relu(scratch.h, topology.nonzero_blocks_bound * topology.block * topology.block, stream);
  dsd(h, w2, y_rows, stream);
  combine(topology.row_order(), {scratch.y_rows, d_model}, layer.routing_weights, {layer.y, d_model}, d_model,
          /*accumulate=*/false, stream);
}

bool run(Stream stream) {
  thrust::device_vector<std::int32_t> ids = expert_ids;
  thrust::device_vector<float> weights = routing_weights;
  DeviceValues x = to_device(make_x()), w1 = to_device(make_w1()), w2 = to_device(make_w2()),
               y(tokens * d_model);
  const Layer layer{pointer(weights), pointer(x), pointer(w1), pointer(w2), pointer(y)};

  const TopologyBounds bounds{tokens, top_k, experts};
  thrust::device_vector<char> metadata(topology_metadata_bytes(bounds)),
      workspace(topology_workspace_bytes(bounds));
  const Topology packed = build_topology({pointer(ids)}, bounds, pointer(metadata), metadata.size(),
                                         pointer(workspace), workspace.size(), stream);
  DeviceValues x_rows(assignments * d_model), h(assignments * d_ff), y_rows(assignments * d_model);
  packed_layer(packed, layer, {pointer(x_rows), pointer(h), pointer(y_rows)}, stream);
  const bool packed_right = check(to_host(y));

  const std::vector<std::int64_t> widths{d_ff};
  thrust::device_vector<char> block_memory(device_block_topology_bytes(bounds, 16, widths));
  const DeviceBlockTopology blocked =
      build_block_topology(packed, 16, widths, pointer(block_memory), block_memory.size(), stream);
  DeviceValues blocked_x_rows(blocked.block_rows_bound * 16 * d_model),
      values(blocked.nonzero_blocks_bound * 16 * 16), blocked_y_rows(blocked.block_rows_bound * 16 * d_model);
  blocked_layer(blocked, layer, {pointer(blocked_x_rows), pointer(values), pointer(blocked_y_rows)}, stream);
  const bool blocked_right = check(to_host(y));

  check(packed, stream);  // throws where the router gave ids that no expert has
  return packed_right && blocked_right;
}

}  // namespace

int main() {
  return gpu_exit_code([] { return run(nullptr); });
}
