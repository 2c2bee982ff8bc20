// The tile list of rows that somebody else laid out: tiles per expert, their prefix sums, and the list. Every
// block scans all experts for itself and then writes its share of the list, so one launch suffices.
#include "dropless/expert_rows.hpp"

#include "argument_checks.hpp"
#include "block_scan.cuh"
#include "current_device.hpp"
#include "device_memory_layout.hpp"
#include "launch.cuh"
#include "tile_list.hpp"
#include "tile_rule_check.hpp"

namespace dropless {
namespace {

constexpr int threads = 256;
constexpr std::int64_t max_blocks = 64;

__global__ void __launch_bounds__(threads)
    cut_tiles(const std::int32_t* __restrict__ row_begin, const std::int32_t* __restrict__ row_count,
              int experts, RowTileRule rule, std::int64_t tile_bound, RowTile* tiles,
              std::int32_t* tile_count, std::uint32_t* tile_counter) {
  extern __shared__ std::int32_t tile_begin[];  // [experts + 1]
  auto* const odd_experts = reinterpret_cast<std::uint32_t*>(tile_begin + experts + 1);
  __shared__ std::int64_t warp_totals[32];
  // Counts that break the promise of expert_rows.hpp must not write past the list: it is that of the tiles
  // within the bound.
  const auto within = [&](std::int64_t tiles) { return static_cast<std::int32_t>(min(tiles, tile_bound)); };
  std::int64_t total = 0;
  for (int first = 0; first < experts; first += threads) {
    const int expert = first + static_cast<int>(threadIdx.x);
    const std::int64_t own = expert < experts ? row_tile_count(max(row_count[expert], 0), rule) : 0;
    const BlockScan<std::int64_t> scan = block_inclusive_scan(own, warp_totals);
    const std::int32_t end = within(total + scan.inclusive), begin = within(total + scan.inclusive - own);
    const unsigned odd = __ballot_sync(full_warp, (end - begin) % 2 != 0);
    if (expert < experts) {
      tile_begin[expert] = begin;
      if (threadIdx.x % 32 == 0) odd_experts[expert / 32] = odd;
    }
    total += scan.total;
  }
  if (threadIdx.x == 0) tile_begin[experts] = within(total);
  __syncthreads();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    *tile_count = within(total);
    *tile_counter = 0;
  }
  const TileOrder order{tile_begin, odd_experts, experts};
  for (std::int64_t entry = std::int64_t{blockIdx.x} * threads + threadIdx.x; entry < within(total);
       entry += std::int64_t{gridDim.x} * threads) {
    const auto [expert, index] = order.at(static_cast<std::int32_t>(entry));
    tiles[entry] = row_tile(expert, row_begin[expert], row_count[expert], index, rule);
  }
}

struct TileList {
  RowTile* tiles;
  std::int32_t* count;
  std::uint32_t* counter;
};

TileList lay_out(DeviceMemoryLayout& layout, std::int64_t tile_bound) {
  RowTile* const tiles = layout.array<RowTile>(tile_bound);
  auto* const counts = layout.array<std::int32_t>(2);
  return {tiles, counts, reinterpret_cast<std::uint32_t*>(counts + 1)};
}

void check_bounds(std::int64_t experts, std::int64_t rows_bound, RowTileRule rule) {
  require_between(experts, 1, 4096, "experts");
  require_between(rows_bound, 0, int32_max, "rows_bound");
  check_tile_rule(rule);
}

}  // namespace

std::size_t expert_rows_bytes(std::int64_t experts, std::int64_t rows_bound, RowTileRule tile_rule) {
  check_bounds(experts, rows_bound, tile_rule);
  DeviceMemoryLayout layout;
  lay_out(layout, row_tile_bound(rows_bound, experts, tile_rule));
  return layout.used();
}

ExpertRows prepare_expert_rows(const std::int32_t* row_begin, const std::int32_t* row_count,
                               std::int64_t experts, std::int64_t rows_bound, void* memory,
                               std::size_t memory_bytes, Stream stream, RowTileRule tile_rule) {
  const std::size_t needed = expert_rows_bytes(experts, rows_bound, tile_rule);
  require_memory(row_begin, true, sizeof(std::int32_t), "row_begin");
  require_memory(row_count, true, sizeof(std::int32_t), "row_count");
  DeviceMemoryLayout layout(memory, memory_bytes, needed, "memory");
  const std::int64_t bound = row_tile_bound(rows_bound, experts, tile_rule);
  const TileList list = lay_out(layout, bound);
  check_current_device(row_begin, "row_begin");
  const std::int64_t blocks = ceil_div(bound + 1, threads);
  const auto shared_words = static_cast<std::size_t>(tile_order_words(static_cast<std::int32_t>(experts)));
  launch("cut_tiles", cut_tiles, static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks), threads,
         shared_words * sizeof(std::int32_t), stream, LaunchOrder::after_previous, row_begin, row_count,
         static_cast<int>(experts), tile_rule, bound, list.tiles, list.count, list.counter);

  ExpertRows rows;
  rows.experts = experts;
  rows.rows_bound = rows_bound;
  rows.row_begin = row_begin;
  rows.row_count = row_count;
  rows.tiles = list.tiles;
  rows.tile_count = list.count;
  rows.tile_counter = list.counter;
  rows.tile_bound = bound;
  rows.tile_rule = tile_rule;
  return rows;
}

}  // namespace dropless
