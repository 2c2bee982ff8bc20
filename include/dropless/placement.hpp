// Which expert-parallel rank holds which expert: contiguous, strided or balanced by load, with replicas of
// heavy experts; and the rows that each rank then has. Placements are written and read as JSON under the key
// names that SGLang and DeepSeek's EPLB use.
//
// A layer's placement is its `physical_to_logical` list: slot s of the ranks holds logical expert
// physical_to_logical[s]. Ranks hold consecutive slots; where ranks do not divide their number, the first
// slots % ranks ranks hold one more than the others.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/array_view.hpp"
#include "dropless/time_model.hpp"

namespace dropless {

/// The first slot of rank `rank` of `ranks`; for rank = ranks, the number of slots.
std::int64_t first_slot_of_rank(std::int64_t rank, std::int64_t ranks, std::int64_t slots);

/// Experts in order. 1 <= ranks <= experts, here and below.
std::vector<std::int64_t> contiguous_placement(std::int64_t experts, std::int64_t ranks);

/// Expert e on rank e % ranks.
std::vector<std::int64_t> strided_placement(std::int64_t experts, std::int64_t ranks);

/// Packs experts by the rows they had. Each of `replicas` extra slots goes to the expert whose copies have
/// the most rows each, at most one copy a rank; then copies, heaviest first, go to the rank with the fewest
/// rows among those with a free slot and, where there is one, without a copy of that expert (longest
/// processing time first: Graham 1969). Where that leaves the fullest rank with more rows than contiguous
/// experts would, experts stay contiguous and each rank copies its own. Ties go to the lower number. 0 <=
/// replicas <= experts
/// * (ranks - 1), or Error.
std::vector<std::int64_t> balanced_placement(ArrayView<const std::int64_t> rows_per_expert,
                                             std::int64_t ranks, std::int64_t replicas);

/// Counts the rows of each rank for batch after batch of one layer. An expert's rows are split evenly over
/// its copies; what is left over goes to its first copies, a row each.
class RankRows {
 public:
  /// Every expert in [0, experts) has a slot, or Error.
  RankRows(const std::vector<std::int64_t>& physical_to_logical, std::int64_t experts, std::int64_t ranks);

  /// Rows of the fullest rank; rows_per_expert is [experts].
  std::int64_t most(ArrayView<const std::int64_t> rows_per_expert) const;
  /// Rows of rank `rank`.
  std::int64_t of_rank(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert) const;
  /// What this library's products compute on rank `rank`: the rows of each copy in tiles of their own.
  BatchWork work_of_rank(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert) const;

 private:
  struct Slot {
    std::int64_t expert = 0, copies = 1, copy = 0;
  };
  /// Calls use(rows) for each slot of the rank.
  template <class Use>
  void for_each_slot(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert, Use use) const;

  std::vector<Slot> slots_;
  std::int64_t ranks_ = 0;
};

/// The placement of several layers.
struct Placement {
  std::int64_t ranks = 0;            ///< 0: a file that does not say
  std::vector<std::int64_t> layers;  ///< layer numbers; empty: a file that does not say
  std::vector<std::vector<std::int64_t>> physical_to_logical;  ///< [layers][slots]
};

/// Reads {"physical_to_logical_map": [layers][slots], "layers": [numbers], "ranks": N}; the latter two may be
/// absent and other keys are ignored. Every layer has the same number of slots and a slot for each of
/// `experts` experts. Throws FileError with path, place and reason.
Placement read_placement(const std::string& path, std::int64_t experts);

/// That document, with "logical_count": [layers][experts], the rows of each expert.
std::string placement_json(const Placement& placement,
                           const std::vector<std::vector<std::int64_t>>& rows_per_expert);

}  // namespace dropless
