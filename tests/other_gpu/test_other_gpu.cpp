// Rows, topologies and patterns in the memory of another GPU than the current one are refused, on any
// machine, and wrong arguments without asking for a GPU: the linker puts the functions below in the place of
// the three CUDA calls by which the library tells GPUs apart. Where a call can have nothing to compute it has
// that, and what is not refused returns before it needs a GPU.
#include <cuda_runtime_api.h>

#include "catch.hpp"
#include "dropless/block_sparse.hpp"
#include "dropless/device_block_topology.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/permutation.hpp"
#include "dropless/topology.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

int current_device = 0, device_of_memory = 0, questions = 0;

}  // namespace

extern "C" {
cudaError_t __wrap_cudaGetDevice(int* device) {
  ++questions;
  *device = current_device;
  return cudaSuccess;
}
cudaError_t __wrap_cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void*) {
  ++questions;
  *attributes = {};
  attributes->type = cudaMemoryTypeDevice;
  attributes->device = device_of_memory;
  return cudaSuccess;
}
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  ++questions;
  *value = 9;
  return cudaSuccess;
}
}

namespace {

/// Addresses that are looked at and never followed.
alignas(16) unsigned char memory[1 << 12];
const auto* const numbers = reinterpret_cast<const std::int32_t*>(memory);

ExpertRows no_rows() {
  ExpertRows rows;
  rows.experts = 2;
  rows.row_begin = rows.row_count = rows.tile_count = numbers;
  rows.tiles = reinterpret_cast<const RowTile*>(memory);
  return rows;
}

ExpertWeights weights() {
  ExpertWeights weights;
  weights.experts = 2;
  weights.k = weights.n = weights.leading_dimension = 8;
  weights.first = {memory + 1024, 64, nullptr};
  return weights;
}

ExpertGradients gradients() {
  ExpertGradients gradients;
  gradients.experts = 2;
  gradients.m = gradients.n = gradients.leading_dimension = 8;
  gradients.expert_stride = 64;
  gradients.data = memory + 1024;
  return gradients;
}

BlockSparseMatrix no_blocks() {
  BlockSparseMatrix matrix;
  matrix.block = 16;
  matrix.offsets = matrix.row_indices = matrix.column_indices = numbers;
  matrix.offsets_transposed = matrix.column_indices_transposed = matrix.block_offsets_transposed = numbers;
  matrix.values = memory + 2048;
  return matrix;
}

/// What `call` refuses with memory of another GPU.
template <class Call>
void require_refused_elsewhere(const Call& call, const std::string& argument) {
  current_device = 1;
  device_of_memory = 0;
  CHECK(refused_argument(call) == argument);
}

/// What `call` refuses with memory of the current GPU, and with memory of another one.
template <class Call>
void require_refused(const Call& call, const std::string& argument) {
  current_device = device_of_memory = 0;
  CHECK(refused_argument(call) == "nothing");
  current_device = device_of_memory = 1;
  CHECK(refused_argument(call) == "nothing");
  require_refused_elsewhere(call, argument);
}

}  // namespace

TEST_CASE("rows in another GPU's memory are refused by every product") {
  const RowsView in{memory, 8, ElementType::bf16};
  const MutableRowsView out{memory + 512, 8, ElementType::bf16};
  ProductOptions add;
  add.accumulate = true;  // so that experts without rows leave nothing to write
  require_refused([&] { sdd(no_rows(), in, weights(), out, {}, nullptr); }, "rows.row_begin");
  require_refused([&] { dsd(no_rows(), in, weights(), out, {}, nullptr); }, "rows.row_begin");
  require_refused([&] { weight_gradient(no_rows(), in, in, gradients(), add, nullptr); }, "rows.row_begin");
}

TEST_CASE("patterns in another GPU's memory are refused by every block-sparse product and conversion") {
  const DenseMatrix dense{memory, 0, 0, 16, ElementType::bf16, false};
  const std::string indices = "the block-sparse matrix's indices";
  require_refused([&] { sdd(dense, dense, no_blocks(), nullptr); }, indices);
  require_refused([&] { dsd(no_blocks(), dense, dense, nullptr); }, indices);
  require_refused([&] { dds(dense, no_blocks(), dense, nullptr); }, indices);
  require_refused([&] { to_dense(no_blocks(), dense, nullptr); }, "matrix.offsets");
  require_refused([&] { from_dense(dense, no_blocks(), nullptr); }, "out.row_indices");
}

TEST_CASE("rows are not moved by an order in another GPU's memory") {
  const RowOrder no_tokens{0, 2, numbers};
  const RowsView in{memory, 8, ElementType::bf16};
  const MutableRowsView out{memory + 512, 8, ElementType::bf16};
  const std::string order = "order.assignment_to_row";
  require_refused([&] { gather(no_tokens, in, out, 8, nullptr); }, order);
  require_refused([&] { combine(no_tokens, in, nullptr, out, 8, false, nullptr); }, order);
  require_refused([&] { combine_backward(no_tokens, in, nullptr, in, {out, nullptr}, 8, nullptr); }, order);
  DeviceBlockTopology blocked;
  blocked.tokens = 1;
  blocked.row_offsets = numbers;
  require_refused_elsewhere([&] { clear_padding_rows(blocked, out, 8, nullptr); }, "topology.row_offsets");
}

TEST_CASE("no topology is built in another GPU's memory, or over one that lies there") {
  alignas(16) static unsigned char place[1 << 16];
  TopologyBounds bounds;
  bounds.tokens = 4;
  bounds.top_k = 1;
  bounds.experts = 2;
  RouterIds ids;
  ids.data = numbers;
  require_refused_elsewhere(
      [&] { build_topology(ids, bounds, place, sizeof place, place, sizeof place, nullptr); }, "metadata");
  require_refused_elsewhere(
      [&] { prepare_expert_rows(numbers, numbers, 2, 4, place, sizeof place, nullptr); }, "row_begin");
  Topology packed;
  packed.bounds = bounds;
  packed.row_offsets = numbers;
  const std::int64_t d_ff = 64;
  require_refused_elsewhere(
      [&] {
        build_block_topology(packed, 16, {&d_ff, 1}, place, sizeof place, nullptr);
      },
      "packed.row_offsets");
}

TEST_CASE("a product's wrong argument is named before a GPU is asked for") {
  const ExpertRows rows = no_rows();
  const RowsView in{memory, 8, ElementType::bf16};
  const MutableRowsView out{memory + 512, 8, ElementType::bf16};
  ExpertWeights narrow = weights();
  narrow.k = -1;
  ExpertGradients low = gradients();
  low.m = -1;
  ProductOptions limited;
  limited.sm_limit = -1;
  questions = 0;
  CHECK(refused_argument([&] { sdd(rows, in, narrow, out, {}, nullptr); }) == "weights.k");
  CHECK(refused_argument([&] { dsd(rows, in, narrow, out, {}, nullptr); }) == "weights.k");
  CHECK(refused_argument([&] { sdd(rows, in, weights(), out, limited, nullptr); }) == "options.sm_limit");
  CHECK(refused_argument([&] { dsd(rows, in, weights(), out, limited, nullptr); }) == "options.sm_limit");
  CHECK(refused_argument([&] { weight_gradient(rows, in, in, gradients(), limited, nullptr); }) ==
        "options.sm_limit");
  CHECK(refused_argument([&] { weight_gradient(rows, in, in, low, {}, nullptr); }) == "dw.m");
  CHECK(questions == 0);
}
