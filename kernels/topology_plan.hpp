// Which thread block and warp reads which assignments, and what an id means: the index arithmetic of the
// topology kernels, kept apart so that it is tested on the CPU.
//
// Assignments are cut into chunks, one a thread block. A block works through its chunk in rounds; in a round
// warp w takes the w-th run of `ids_per_warp` consecutive assignments, lane l the assignments l, l + 32, ...
// of that run. Reading order (chunk, round, warp, item, lane) is therefore assignment order, which is what
// makes the sort stable.
#pragma once
#include <cstdint>

#include "dropless/topology.hpp"

namespace dropless {

constexpr int ids_per_lane = 4;
constexpr int ids_per_warp = 32 * ids_per_lane;
constexpr int max_topology_warps = 32;
/// Of a block that does everything: with more, three launches over several blocks are faster. On an H200 one
/// block of 32 warps took 13.1 us for 4096 assignments, where three launches took 7.0 us for 32768 (in a
/// graph; data/benchmarks/h200_topology.txt).
constexpr int lone_block_warps = 8;
/// Shared counters [warps, experts] of a block: the most that lets every GPU since sm_80 run 4096 experts.
constexpr int max_shared_counters = 12288;
/// More chunks only make the scan over chunks longer; longer inputs get more rounds instead.
constexpr int max_chunks = 256;

/// What the bins behind the experts count.
enum DroppedBin : int { bin_out_of_range = 0, bin_unrouted = 1, bin_non_local = 2, dropped_bins = 3 };

struct TopologyPlan {
  std::int64_t assignments = 0;
  std::int32_t experts = 0;
  std::int32_t warps = 1;   ///< of a placing block
  std::int32_t rounds = 1;  ///< of a chunk
  std::int32_t chunks = 1;  ///< 1: one block does everything in one launch

  DROPLESS_HOST_DEVICE constexpr std::int32_t bins() const { return experts + dropped_bins; }
  DROPLESS_HOST_DEVICE constexpr std::int64_t round_length() const {
    return std::int64_t{warps} * ids_per_warp;
  }
  DROPLESS_HOST_DEVICE constexpr std::int64_t chunk_length() const { return rounds * round_length(); }
  DROPLESS_HOST_DEVICE constexpr std::int64_t chunk_begin(std::int64_t chunk) const {
    const std::int64_t begin = chunk * chunk_length();
    return begin < assignments ? begin : assignments;
  }
  /// The assignment that a lane reads; it is past the chunk where it is >= chunk_begin(chunk + 1).
  DROPLESS_HOST_DEVICE constexpr std::int64_t assignment(std::int64_t chunk, std::int32_t round,
                                                         std::int32_t warp, std::int32_t item,
                                                         std::int32_t lane) const {
    return chunk * chunk_length() + round * round_length() + std::int64_t{warp} * ids_per_warp + item * 32 +
           lane;
  }
};

/// One block in one round where the ids fit; else enough blocks to fill a GPU before blocks get taller.
constexpr TopologyPlan topology_plan(std::int64_t assignments, std::int64_t experts) {
  const auto at_most = [](std::int64_t value, std::int64_t limit) { return value < limit ? value : limit; };
  const std::int64_t most_warps = at_most(max_shared_counters / experts, max_topology_warps);
  TopologyPlan plan;
  plan.assignments = assignments;
  plan.experts = static_cast<std::int32_t>(experts);
  const std::int64_t most_lone_warps = at_most(most_warps, lone_block_warps);
  if (assignments <= most_lone_warps * ids_per_warp) {
    const std::int64_t needed = ceil_div(assignments, ids_per_warp);
    plan.warps = static_cast<std::int32_t>(at_most(needed < 4 ? 4 : needed, most_lone_warps));
    return plan;
  }
  std::int64_t warps = 4;
  while (warps < 16 && assignments > 128 * warps * ids_per_warp) warps *= 2;
  plan.warps = static_cast<std::int32_t>(at_most(warps, most_warps));
  const std::int64_t rounds = ceil_div(assignments, plan.round_length());
  plan.rounds = static_cast<std::int32_t>(ceil_div(rounds, max_chunks));
  plan.chunks = static_cast<std::int32_t>(ceil_div(rounds, plan.rounds));
  return plan;
}

/// How ids map to experts held here (RouterIds without the ids).
struct IdRule {
  std::int64_t global_experts;
  std::int64_t first_expert;
  std::int32_t experts;
  const std::int32_t* expert_map;
};

/// The bin of an id: its local expert, or experts + a DroppedBin. Never indexes with an id out of range.
template <class Id>
DROPLESS_HOST_DEVICE inline std::int32_t bin_of(Id id, const IdRule& rule) {
  if (id < 0) return rule.experts + bin_unrouted;
  if (id >= rule.global_experts) return rule.experts + bin_out_of_range;
  const std::int64_t local = rule.expert_map != nullptr ? rule.expert_map[id] : id - rule.first_expert;
  if (local >= 0 && local < rule.experts) return static_cast<std::int32_t>(local);
  return rule.experts + (rule.expert_map != nullptr && local >= 0 ? bin_out_of_range : bin_non_local);
}

}  // namespace dropless
