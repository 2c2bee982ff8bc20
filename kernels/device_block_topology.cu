// The blocked topology on the GPU: one block sums rows, columns and blocks over the experts, then every array
// entry is computed on its own from the closed form.
#include "dropless/device_block_topology.hpp"

#include "argument_checks.hpp"
#include "block_scan.cuh"
#include "block_topology_index.hpp"
#include "current_device.hpp"
#include "device_memory_layout.hpp"
#include "dropless/block_topology.hpp"
#include "launch.cuh"

namespace dropless {
namespace {

constexpr int scan_threads = 1024, fill_threads = 256, clear_threads = 256;

/// Widths travel as a kernel parameter: no copy to the device, and a captured graph keeps them.
struct WidthsInBlocks {
  std::uint16_t of[4096];
};

/// The arrays, writable.
struct BlockArrays {
  BlockCounts* counts;
  std::int32_t *block_row_begin, *block_column_begin, *block_begin;
  std::int32_t *row_offsets, *row_to_assignment, *assignment_to_row;
  std::int32_t *offsets, *row_indices, *column_indices;
  std::int32_t *offsets_transposed, *column_indices_transposed, *block_offsets_transposed;
};

__global__ void __launch_bounds__(scan_threads, 1)
    scan_experts(const std::int32_t* __restrict__ rows_per_expert, int experts, int block,
                 const __grid_constant__ WidthsInBlocks widths, BlockArrays out) {
  __shared__ std::uint64_t warp_totals[32];
  allow_next_kernel();
  // Block rows below, blocks above: each is below 2^31. Block columns take a sum of their own.
  std::uint64_t rows_and_blocks = 0, columns = 0;
  for (int first = 0; first < experts; first += scan_threads) {
    const int expert = first + static_cast<int>(threadIdx.x);
    const std::uint32_t width = expert < experts ? widths.of[expert] : 0;
    const auto rows = static_cast<std::uint32_t>(expert < experts ? rows_per_expert[expert] : 0);
    const std::uint32_t height = (rows + block - 1) / block;
    const std::uint64_t own = std::uint64_t{height} * width << 32 | height;
    const BlockScan<std::uint64_t> scan = block_inclusive_scan(own, warp_totals);
    const BlockScan<std::uint64_t> column_scan = block_inclusive_scan(std::uint64_t{width}, warp_totals);
    if (expert < experts) {
      const std::uint64_t before = rows_and_blocks + scan.inclusive - own;
      const auto block_row = static_cast<std::int32_t>(before & 0xffffffffu);
      out.block_row_begin[expert] = block_row;
      out.row_offsets[expert] = block_row * block;
      out.block_begin[expert] = static_cast<std::int32_t>(before >> 32);
      out.block_column_begin[expert] = static_cast<std::int32_t>(columns + column_scan.inclusive - width);
    }
    rows_and_blocks += scan.total;
    columns += column_scan.total;
  }
  if (threadIdx.x == 0) {
    const auto block_rows = static_cast<std::int32_t>(rows_and_blocks & 0xffffffffu);
    const auto blocks = static_cast<std::int32_t>(rows_and_blocks >> 32);
    out.block_row_begin[experts] = block_rows;
    out.row_offsets[experts] = block_rows * block;
    out.block_begin[experts] = blocks;
    out.block_column_begin[experts] = static_cast<std::int32_t>(columns);
    *out.counts = {block_rows, blocks};
  }
}

/// One array entry a thread and step, whatever the array. The kernel may start before scan_experts has ended.
__global__ void __launch_bounds__(fill_threads)
    fill_arrays(const std::int32_t* packed_offsets, const std::int32_t* packed_row_to_assignment,
                const std::int32_t* packed_assignment_to_row, std::int64_t assignments, int experts,
                int block, BlockArrays out) {
  const ExpertBlocks blocks{experts, out.block_row_begin, out.block_column_begin, out.block_begin};
  const std::int64_t first = std::int64_t{blockIdx.x} * fill_threads + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * fill_threads;
  wait_for_previous_kernel();
  const std::int32_t block_rows = out.block_row_begin[experts],
                     block_columns = out.block_column_begin[experts];
  for (std::int64_t i = first; i < out.block_begin[experts]; i += stride) {
    const BlockEntry entry = block_entry(blocks, static_cast<std::int32_t>(i));
    out.row_indices[i] = entry.row_index;
    out.column_indices[i] = entry.column_index;
    out.column_indices_transposed[i] = entry.column_index_transposed;
    out.block_offsets_transposed[i] = entry.block_offset_transposed;
  }
  for (std::int64_t i = first; i <= block_rows; i += stride)
    out.offsets[i] = block_row_offset(blocks, static_cast<std::int32_t>(i));
  for (std::int64_t i = first; i <= block_columns; i += stride)
    out.offsets_transposed[i] = block_column_offset(blocks, static_cast<std::int32_t>(i));
  for (std::int64_t i = first; i < assignments; i += stride) {
    const std::int32_t row = packed_assignment_to_row[i];
    out.assignment_to_row[i] = row < 0 ? -1 : blocked_row(blocks, packed_offsets, block, row);
  }
  for (std::int64_t i = first; i < std::int64_t{block_rows} * block; i += stride) {
    const std::int32_t row = packed_row(blocks, packed_offsets, block, static_cast<std::int32_t>(i));
    out.row_to_assignment[i] = row < 0 ? -1 : packed_row_to_assignment[row];
  }
}

/// A block clears the padding rows of one expert.
template <class Unit>
__global__ void __launch_bounds__(clear_threads)
    clear_rows(const std::int32_t* __restrict__ row_offsets, const std::int32_t* __restrict__ rows_per_expert,
               Unit* rows, std::int64_t pitch, std::int64_t width) {
  const std::int64_t end = row_offsets[blockIdx.x + 1];
  for (std::int64_t row = std::int64_t{row_offsets[blockIdx.x]} + rows_per_expert[blockIdx.x]; row < end;
       ++row)
    for (std::int64_t column = threadIdx.x; column < width; column += clear_threads)
      rows[row * pitch + column] = Unit{};
}

/// Sizes of one topology, checked.
struct BlockSizes {
  BlockSizes(const TopologyBounds& bounds, std::int64_t block_size, ArrayView<const std::int64_t> d_ff)
      : widths(widths_in_blocks(d_ff, bounds.experts, block_size)), block(block_size) {
    std::int64_t widest = 0;
    for (const std::int64_t width : widths) {
      if (width > 65535) throw Error("d_ff", std::to_string(width * block), "at most 65535 blocks");
      columns += width;
      widest = width > widest ? width : widest;
    }
    assignments = bounds.tokens * bounds.top_k;
    block_rows = row_tile_bound(assignments, bounds.experts,
                                {static_cast<std::int32_t>(block), static_cast<std::int32_t>(block)});
    nonzero = block_rows * widest;
    checked_int32(block_rows * block, "bound on scheduled rows");
    checked_int32(nonzero, "bound on non-zero blocks");
  }
  std::vector<std::int64_t> widths;
  std::int64_t block, assignments = 0, block_rows = 0, columns = 0, nonzero = 0;
};

BlockArrays lay_out(DeviceMemoryLayout& layout, const BlockSizes& sizes) {
  const auto experts = static_cast<std::int64_t>(sizes.widths.size());
  BlockArrays arrays;
  arrays.counts = layout.array<BlockCounts>(1);
  arrays.block_row_begin = layout.array<std::int32_t>(experts + 1);
  arrays.block_column_begin = layout.array<std::int32_t>(experts + 1);
  arrays.block_begin = layout.array<std::int32_t>(experts + 1);
  arrays.row_offsets = layout.array<std::int32_t>(experts + 1);
  arrays.row_to_assignment = layout.array<std::int32_t>(sizes.block_rows * sizes.block);
  arrays.assignment_to_row = layout.array<std::int32_t>(sizes.assignments);
  arrays.offsets = layout.array<std::int32_t>(sizes.block_rows + 1);
  arrays.row_indices = layout.array<std::int32_t>(sizes.nonzero);
  arrays.column_indices = layout.array<std::int32_t>(sizes.nonzero);
  arrays.offsets_transposed = layout.array<std::int32_t>(sizes.columns + 1);
  arrays.column_indices_transposed = layout.array<std::int32_t>(sizes.nonzero);
  arrays.block_offsets_transposed = layout.array<std::int32_t>(sizes.nonzero);
  return arrays;
}

std::size_t bytes_of(const BlockSizes& sizes) {
  DeviceMemoryLayout layout;
  lay_out(layout, sizes);
  return layout.used();
}

}  // namespace

std::size_t device_block_topology_bytes(const TopologyBounds& bounds, std::int64_t block,
                                        ArrayView<const std::int64_t> d_ff) {
  topology_metadata_bytes(bounds);  // checks the bounds
  return bytes_of(BlockSizes(bounds, block, d_ff));
}

DeviceBlockTopology build_block_topology(const Topology& packed, std::int64_t block,
                                         ArrayView<const std::int64_t> d_ff, void* memory,
                                         std::size_t memory_bytes, Stream stream) {
  if (packed.row_offsets == nullptr) throw Error("packed", "empty", "a built topology");
  const BlockSizes sizes(packed.bounds, block, d_ff);
  DeviceMemoryLayout layout(memory, memory_bytes, bytes_of(sizes), "memory");
  const BlockArrays arrays = lay_out(layout, sizes);
  check_current_device(packed.row_offsets, "packed.row_offsets");
  WidthsInBlocks widths{};
  for (std::size_t e = 0; e < sizes.widths.size(); ++e)
    widths.of[e] = static_cast<std::uint16_t>(sizes.widths[e]);
  const int experts = static_cast<int>(packed.bounds.experts), block_int = static_cast<int>(block);
  launch("scan_experts", scan_experts, 1, scan_threads, 0, stream, LaunchOrder::after_previous,
         packed.rows_per_expert, experts, block_int, widths, arrays);
  std::int64_t most = sizes.nonzero > sizes.assignments ? sizes.nonzero : sizes.assignments;
  most = most > sizes.block_rows * block ? most : sizes.block_rows * block;
  const std::int64_t full_gpu = 8 * std::int64_t{current_device_properties().multiprocessors};
  const std::int64_t blocks = ceil_div(most + 1, fill_threads);
  launch("fill_arrays", fill_arrays, static_cast<unsigned>(blocks < full_gpu ? blocks : full_gpu),
         fill_threads, 0, stream, LaunchOrder::overlap_previous, packed.row_offsets, packed.row_to_assignment,
         packed.assignment_to_row, sizes.assignments, experts, block_int, arrays);

  DeviceBlockTopology topology;
  topology.experts = packed.bounds.experts;
  topology.tokens = packed.bounds.tokens;
  topology.top_k = packed.bounds.top_k;
  topology.block = block;
  topology.block_rows_bound = sizes.block_rows;
  topology.block_columns = sizes.columns;
  topology.nonzero_blocks_bound = sizes.nonzero;
  topology.counts = arrays.counts;
  topology.rows_per_expert = packed.rows_per_expert;
  topology.row_offsets = arrays.row_offsets;
  topology.row_to_assignment = arrays.row_to_assignment;
  topology.assignment_to_row = arrays.assignment_to_row;
  topology.offsets = arrays.offsets;
  topology.row_indices = arrays.row_indices;
  topology.column_indices = arrays.column_indices;
  topology.offsets_transposed = arrays.offsets_transposed;
  topology.column_indices_transposed = arrays.column_indices_transposed;
  topology.block_offsets_transposed = arrays.block_offsets_transposed;
  return topology;
}

BlockSparseMatrix DeviceBlockTopology::matrix(ElementType type, void* values) const {
  BlockSparseMatrix result;
  result.type = type;
  result.block = block;
  result.rows = block_rows_bound * block;
  result.columns = block_columns * block;
  result.nonzero_blocks = nonzero_blocks_bound;
  result.offsets = offsets;
  result.row_indices = row_indices;
  result.column_indices = column_indices;
  result.offsets_transposed = offsets_transposed;
  result.column_indices_transposed = column_indices_transposed;
  result.block_offsets_transposed = block_offsets_transposed;
  result.values = values;
  result.counts = counts;
  return result;
}

void clear_padding_rows(const DeviceBlockTopology& topology, const MutableRowsView& rows,
                        std::int64_t columns, Stream stream) {
  if (topology.row_offsets == nullptr) throw Error("topology", "empty", "a built blocked topology");
  require_at_least(columns, 0, "columns");
  require_leading_dimension(rows.leading_dimension, columns, "rows.leading_dimension");
  if (topology.tokens == 0 || columns == 0) return;
  require_memory(rows.data, true, element_bytes(rows.type), "rows.data");
  check_current_device(topology.row_offsets, "topology.row_offsets");
  const std::int64_t pitch = rows.leading_dimension * element_bytes(rows.type);
  const std::int64_t bytes = columns * element_bytes(rows.type);
  const auto clear = [&](auto unit) {
    using Unit = decltype(unit);
    constexpr std::int64_t unit_bytes = sizeof(Unit);
    launch("clear_rows", clear_rows<Unit>, static_cast<unsigned>(topology.experts), clear_threads, 0, stream,
           LaunchOrder::after_previous, topology.row_offsets, topology.rows_per_expert,
           static_cast<Unit*>(rows.data), pitch / unit_bytes, bytes / unit_bytes);
  };
  if (reinterpret_cast<std::uintptr_t>(rows.data) % 16 == 0 && pitch % 16 == 0 && bytes % 16 == 0)
    clear(uint4{});
  else
    clear(static_cast<unsigned short>(0));
}

}  // namespace dropless
