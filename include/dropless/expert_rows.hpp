// Where each expert's rows lie in a row matrix, and the tiles Hopper's matrix products walk: the interchange
// between the topology and the products. Everything a product needs to know about raggedness is here, in
// device memory, so that no product waits for the host.
#pragma once
#include <cstddef>
#include <cstdint>

#include "dropless/row_tiles.hpp"
#include "dropless/stream.hpp"

namespace dropless {

/// The rows of `experts` experts. Device arrays are owned by the caller and must outlive every call that uses
/// them. Expert e owns rows [row_begin[e], row_begin[e] + row_count[e]) of every row matrix of a call.
/// row_begin and row_count keep the values that the tiles were cut from as long as calls use them. Experts
/// must not overlap; gaps between them are never read for a result and never written. A packed layout is the
/// case row_begin = row_offsets, row_count[e] = row_offsets[e + 1] - row_offsets[e]; a receive buffer
/// [experts, capacity, d] is the case row_begin[e] = e * capacity. The tiles are listed by expert, but so
/// that entries 2i and 2i + 1 are of one expert wherever they can be: the last tile of an expert with an odd
/// number of tiles waits for the next such expert, and follows that one's whole pairs together with its last;
/// one that waits in vain is the list's last.
struct ExpertRows {
  std::int64_t experts = 0;
  std::int64_t rows_bound = 0;               ///< host-known: every begin + count is at most this; below 2^31
  const std::int32_t* row_begin = nullptr;   ///< [experts]
  const std::int32_t* row_count = nullptr;   ///< [experts]; below zero: an empty expert
  const RowTile* tiles = nullptr;            ///< [tile_bound], the first *tile_count of them valid
  const std::int32_t* tile_count = nullptr;  ///< [1]
  std::uint32_t* tile_counter = nullptr;     ///< [1], zero; or null. See ProductOptions::exclusive_rows
  std::int64_t tile_bound = 0;               ///< row_tile_bound(rows_bound, experts, tile_rule)
  RowTileRule tile_rule;                     ///< the rule by which `tiles` were cut
};

/// Bytes of device memory that `prepare_expert_rows` fills: the tile list, its count and the counter.
std::size_t expert_rows_bytes(std::int64_t experts, std::int64_t rows_bound, RowTileRule tile_rule = {});

/// Cuts the rows of `experts` experts into tiles on `stream`, for callers that bring their own begin and
/// count. `memory` (device, 16-byte aligned, `memory_bytes` >= expert_rows_bytes(...)) stays the caller's and
/// must outlive the result. Counts below zero are read as zero. One launch; no allocation, no
/// synchronisation; capturable. Throws Error for null pointers, a short or misaligned memory, experts outside
/// [1, 4096], rows_bound >= 2^31, or rows in the memory of a GPU other than the current one.
ExpertRows prepare_expert_rows(const std::int32_t* row_begin, const std::int32_t* row_count,
                               std::int64_t experts, std::int64_t rows_bound, void* memory,
                               std::size_t memory_bytes, Stream stream, RowTileRule tile_rule = {});

}  // namespace dropless
