// The transposed view of any pattern: a stable radix sort of the blocks by block column keeps the order of
// block rows within a column, so the view is the same bits in every run. (A topology over a row layout needs
// no sort: its view has a closed form.)
#include <cub/device/device_radix_sort.cuh>

#include "block_sparse_checks.hpp"
#include "current_device.hpp"
#include "device_memory_layout.hpp"
#include "launch.cuh"

namespace dropless {
namespace {

constexpr int threads = 256;

/// The view's arrays in the caller's memory.
struct ViewArrays {
  std::int32_t* offsets;
  std::int32_t* column_indices;
  std::int32_t* block_offsets;
};
ViewArrays lay_out_view(DeviceMemoryLayout& layout, std::int64_t block_columns, std::int64_t nonzero_blocks) {
  return {layout.array<std::int32_t>(block_columns + 1), layout.array<std::int32_t>(nonzero_blocks),
          layout.array<std::int32_t>(nonzero_blocks)};
}

/// What the sort needs and the view does not keep.
struct SortArrays {
  std::int32_t* sorted_columns;
  std::int32_t* block_numbers;
  unsigned char* sort_workspace;
};
SortArrays lay_out_sort(DeviceMemoryLayout& layout, std::int64_t nonzero_blocks, std::size_t sort_bytes) {
  return {layout.array<std::int32_t>(nonzero_blocks), layout.array<std::int32_t>(nonzero_blocks),
          layout.array<unsigned char>(static_cast<std::int64_t>(sort_bytes))};
}

/// Bits of a block column's number.
int column_bits(std::int64_t block_columns) {
  int bits = 1;
  while ((std::int64_t{1} << bits) < block_columns) ++bits;
  return bits;
}

std::size_t sort_bytes(std::int64_t block_columns, std::int64_t nonzero_blocks) {
  std::size_t bytes = 0;
  const std::int32_t* in = nullptr;
  std::int32_t* out = nullptr;
  if (nonzero_blocks != 0)
    DROPLESS_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
        nullptr, bytes, in, out, in, out, static_cast<int>(nonzero_blocks), 0, column_bits(block_columns)));
  return bytes;
}

__global__ void __launch_bounds__(threads) number_blocks(std::int32_t* block_numbers, std::int32_t blocks) {
  const std::int64_t q = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (q < blocks) block_numbers[q] = static_cast<std::int32_t>(q);
}

/// Entry i of the view gets its block row; a column begins where the sorted columns reach it.
__global__ void __launch_bounds__(threads)
    finish_view(const std::int32_t* __restrict__ sorted_columns, const std::int32_t* __restrict__ row_indices,
                std::int32_t blocks, std::int32_t block_columns, ViewArrays view) {
  const std::int64_t i = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (i > blocks) return;
  const std::int32_t first = i == 0 ? 0 : sorted_columns[i - 1] + 1;
  const std::int32_t last = i == blocks ? block_columns : sorted_columns[i];
  for (std::int32_t column = first; column <= last; ++column)
    view.offsets[column] = static_cast<std::int32_t>(i);
  if (i < blocks) view.column_indices[i] = row_indices[view.block_offsets[i]];
}

}  // namespace

std::size_t transposed_view_bytes(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                  std::int64_t nonzero_blocks) {
  check_pattern_shape(rows, columns, block, nonzero_blocks, "matrix");
  DeviceMemoryLayout layout;
  lay_out_view(layout, columns / block, nonzero_blocks);
  return layout.used();
}

std::size_t transposed_view_workspace_bytes(std::int64_t rows, std::int64_t columns, std::int64_t block,
                                            std::int64_t nonzero_blocks) {
  check_pattern_shape(rows, columns, block, nonzero_blocks, "matrix");
  DeviceMemoryLayout layout;
  lay_out_sort(layout, nonzero_blocks, sort_bytes(columns / block, nonzero_blocks));
  return layout.used();
}

BlockSparseMatrix with_transposed_view(const BlockSparseMatrix& matrix, void* memory,
                                       std::size_t memory_bytes, void* workspace, std::size_t workspace_bytes,
                                       Stream stream) {
  const std::int64_t block_columns = matrix.columns / (matrix.block > 0 ? matrix.block : 1);
  const std::size_t view_bytes =
      transposed_view_bytes(matrix.rows, matrix.columns, matrix.block, matrix.nonzero_blocks);
  const std::size_t needed_workspace =
      transposed_view_workspace_bytes(matrix.rows, matrix.columns, matrix.block, matrix.nonzero_blocks);
  if (matrix.counts != nullptr)
    throw Error("matrix.counts", "given", "null: a sort needs a number of blocks that the host knows");
  require_memory(matrix.row_indices, matrix.nonzero_blocks > 0, sizeof(std::int32_t), "matrix.row_indices");
  require_memory(matrix.column_indices, matrix.nonzero_blocks > 0, sizeof(std::int32_t),
                 "matrix.column_indices");
  DeviceMemoryLayout view_layout(memory, memory_bytes, view_bytes, "memory");
  DeviceMemoryLayout sort_layout(workspace, workspace_bytes, needed_workspace, "workspace");
  check_current_device(matrix.row_indices, "matrix.row_indices");
  check_current_device(memory, "memory");
  const auto blocks = static_cast<std::int32_t>(matrix.nonzero_blocks);
  std::size_t bytes = sort_bytes(block_columns, blocks);
  const ViewArrays view = lay_out_view(view_layout, block_columns, blocks);
  const SortArrays sort = lay_out_sort(sort_layout, blocks, bytes);

  const auto grid = [](std::int64_t count) { return dim3(static_cast<unsigned>(ceil_div(count, threads))); };
  if (blocks != 0) {
    launch("number_blocks", number_blocks, grid(blocks), dim3(threads), 0, stream,
           LaunchOrder::after_previous, sort.block_numbers, blocks);
    DROPLESS_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
        sort.sort_workspace, bytes, matrix.column_indices, sort.sorted_columns, sort.block_numbers,
        view.block_offsets, blocks, 0, column_bits(block_columns), stream));
  }
  launch("finish_view", finish_view, grid(std::int64_t{blocks} + 1), dim3(threads), 0, stream,
         LaunchOrder::after_previous, sort.sorted_columns, matrix.row_indices, blocks,
         static_cast<std::int32_t>(block_columns), view);

  BlockSparseMatrix result = matrix;
  result.offsets_transposed = view.offsets;
  result.column_indices_transposed = view.column_indices;
  result.block_offsets_transposed = view.block_offsets;
  return result;
}

}  // namespace dropless
