// The blocked layout and its block-sparse structure, built on the GPU from a packed topology: the arrays of
// block_topology.hpp in device memory, the same numbers bit for bit, without the host ever waiting.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/array_view.hpp"
#include "dropless/block_sparse.hpp"
#include "dropless/row_order.hpp"
#include "dropless/rows_view.hpp"
#include "dropless/stream.hpp"
#include "dropless/topology.hpp"

namespace dropless {

/// Device pointers into the caller's memory. The host knows bounds only; how many entries of an array are
/// valid stands in `counts`. Entries past them are not written.
struct DeviceBlockTopology {
  std::int64_t experts = 0, tokens = 0, top_k = 1;
  std::int64_t block = 0;
  std::int64_t block_rows_bound = 0;
  std::int64_t block_columns = 0;  ///< sum of d_ff / block
  std::int64_t nonzero_blocks_bound = 0;
  const BlockCounts* counts = nullptr;            ///< [1]
  const std::int32_t* rows_per_expert = nullptr;  ///< [experts], the packed topology's
  const std::int32_t* row_offsets =
      nullptr;  ///< [experts + 1] first row of each expert in the blocked layout
  const std::int32_t* row_to_assignment = nullptr;  ///< [block_rows_bound * block]; -1 for a padding row
  const std::int32_t* assignment_to_row =
      nullptr;                                   ///< [tokens * top_k]; -1 where the assignment is not a row
  const std::int32_t* offsets = nullptr;         ///< [block_rows_bound + 1]
  const std::int32_t* row_indices = nullptr;     ///< [nonzero_blocks_bound]
  const std::int32_t* column_indices = nullptr;  ///< [nonzero_blocks_bound]
  const std::int32_t* offsets_transposed = nullptr;         ///< [block_columns + 1]
  const std::int32_t* column_indices_transposed = nullptr;  ///< [nonzero_blocks_bound]
  const std::int32_t* block_offsets_transposed = nullptr;   ///< [nonzero_blocks_bound]

  /// The way of each assignment to its row of the blocked layout.
  RowOrder row_order() const { return {tokens, top_k, assignment_to_row}; }

  /// The matrix [block_rows_bound * block, block_columns * block] over this structure, for the block-sparse
  /// products. `values`: device [nonzero_blocks_bound, block, block]. Its counts stay on the device, so one
  /// captured graph serves every routing.
  BlockSparseMatrix matrix(ElementType type, void* values) const;
};

/// Device bytes of everything a blocked topology keeps. `d_ff` (host) holds one width for all experts or one
/// each. Throws Error as block_topology does, and where a bound passes int32.
std::size_t device_block_topology_bytes(const TopologyBounds& bounds, std::int64_t block,
                                        ArrayView<const std::int64_t> d_ff);

/// Builds the blocked topology over `packed` on `stream`, in two launches, into the caller's memory (16-byte
/// aligned). No allocation, no synchronisation, capturable: a replay sees the packed topology as it then is.
/// `packed` must outlive the result. Throws Error where it lies in the memory of a GPU other than the current
/// one.
DeviceBlockTopology build_block_topology(const Topology& packed, std::int64_t block,
                                         ArrayView<const std::int64_t> d_ff, void* memory,
                                         std::size_t memory_bytes, Stream stream);

/// Writes zeros to the first `columns` elements of every padding row of a blocked row matrix, as block-sparse
/// products need them; gather leaves those rows alone. One launch. Throws Error for a topology in the memory
/// of a GPU other than the current one.
void clear_padding_rows(const DeviceBlockTopology& topology, const MutableRowsView& rows,
                        std::int64_t columns, Stream stream);

}  // namespace dropless
