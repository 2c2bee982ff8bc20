// The placements and the rows of ranks under them.
#include "dropless/placement.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

#include "dropless/error.hpp"
#include "dropless/row_tiles.hpp"

namespace dropless {
namespace {

using Slots = std::vector<std::int64_t>;

void check_ranks(std::int64_t experts, std::int64_t ranks) {
  if (ranks < 1 || ranks > experts)
    throw Error("ranks", std::to_string(ranks), "1 to the number of experts, " + std::to_string(experts));
}

std::int64_t slots_of_rank(std::int64_t rank, std::int64_t ranks, std::int64_t slots) {
  return first_slot_of_rank(rank + 1, ranks, slots) - first_slot_of_rank(rank, ranks, slots);
}

/// One copy each, and one more for every replica.
std::vector<std::int64_t> copies_per_expert(ArrayView<const std::int64_t> rows, std::int64_t ranks,
                                            std::int64_t replicas) {
  std::vector<std::int64_t> copies(rows.size(), 1);
  // Whether a copy of expert a has fewer rows than one of b.
  const auto lighter = [&](std::size_t a, std::size_t b) {
    const double each_of_a = static_cast<double>(rows[a]) / static_cast<double>(copies[a]);
    const double each_of_b = static_cast<double>(rows[b]) / static_cast<double>(copies[b]);
    return each_of_a != each_of_b ? each_of_a < each_of_b : a > b;
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(lighter)> heaviest(lighter);
  if (ranks > 1)
    for (std::size_t expert = 0; expert < rows.size(); ++expert) heaviest.push(expert);
  for (std::int64_t i = 0; i < replicas; ++i) {
    const std::size_t expert = heaviest.top();
    heaviest.pop();
    if (++copies[expert] < ranks) heaviest.push(expert);
  }
  return copies;
}

Slots concatenated(const std::vector<Slots>& ranks) {
  Slots slots;
  for (const Slots& rank : ranks) slots.insert(slots.end(), rank.begin(), rank.end());
  return slots;
}

/// Longest processing time first, with the same number of slots a rank.
Slots packed(ArrayView<const std::int64_t> rows, const std::vector<std::int64_t>& copies,
             std::int64_t rank_count, std::int64_t slot_count) {
  struct Copy {
    std::int64_t expert, rows;
  };
  std::vector<Copy> order;
  for (std::size_t expert = 0; expert < rows.size(); ++expert)
    for (std::int64_t copy = 0; copy < copies[expert]; ++copy)
      order.push_back({static_cast<std::int64_t>(expert),
                       rows[expert] / copies[expert] + (copy < rows[expert] % copies[expert])});
  std::stable_sort(order.begin(), order.end(), [](const Copy& a, const Copy& b) { return a.rows > b.rows; });
  std::vector<Slots> ranks(static_cast<std::size_t>(rank_count));
  std::vector<std::int64_t> load(ranks.size());
  for (const Copy& copy : order) {
    std::size_t best = ranks.size();
    bool best_has_copy = false;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      const Slots& held = ranks[rank];
      const auto number = static_cast<std::int64_t>(rank);
      if (static_cast<std::int64_t>(held.size()) == slots_of_rank(number, rank_count, slot_count)) continue;
      const bool has_copy = copies[static_cast<std::size_t>(copy.expert)] > 1 &&
                            std::find(held.begin(), held.end(), copy.expert) != held.end();
      const bool better =
          best == ranks.size() || (has_copy != best_has_copy ? best_has_copy : load[rank] < load[best]);
      if (!better) continue;
      best = rank;
      best_has_copy = has_copy;
    }
    ranks[best].push_back(copy.expert);
    load[best] += copy.rows;
  }
  return concatenated(ranks);
}

/// Contiguous experts, with the slots left over copying the rank's own experts in turn: the rows of a rank
/// are those without replicas. A rank never has fewer slots than it has contiguous experts.
Slots contiguous_with_copies(std::int64_t experts, std::int64_t ranks, std::int64_t slots) {
  Slots out;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t first = first_slot_of_rank(rank, ranks, experts);
    const std::int64_t held = slots_of_rank(rank, ranks, experts);
    for (std::int64_t i = 0; i < slots_of_rank(rank, ranks, slots); ++i) out.push_back(first + i % held);
  }
  return out;
}

}  // namespace

std::int64_t first_slot_of_rank(std::int64_t rank, std::int64_t ranks, std::int64_t slots) {
  return rank * (slots / ranks) + std::min(rank, slots % ranks);
}

std::vector<std::int64_t> contiguous_placement(std::int64_t experts, std::int64_t ranks) {
  check_ranks(experts, ranks);
  Slots slots(static_cast<std::size_t>(experts));
  std::iota(slots.begin(), slots.end(), 0);
  return slots;
}

std::vector<std::int64_t> strided_placement(std::int64_t experts, std::int64_t ranks) {
  check_ranks(experts, ranks);
  Slots slots;
  for (std::int64_t rank = 0; rank < ranks; ++rank)
    for (std::int64_t expert = rank; expert < experts; expert += ranks) slots.push_back(expert);
  return slots;
}

std::vector<std::int64_t> balanced_placement(ArrayView<const std::int64_t> rows_per_expert,
                                             std::int64_t ranks, std::int64_t replicas) {
  const auto experts = static_cast<std::int64_t>(rows_per_expert.size());
  check_ranks(experts, ranks);
  if (replicas < 0 || replicas > experts * (ranks - 1))
    throw Error("replicas", std::to_string(replicas),
                "0 to a copy on every rank, " + std::to_string(experts * (ranks - 1)));
  const std::int64_t slots = experts + replicas;
  Slots best = packed(rows_per_expert, copies_per_expert(rows_per_expert, ranks, replicas), ranks, slots);
  Slots contiguous = contiguous_with_copies(experts, ranks, slots);
  const auto most = [&](const Slots& placement) {
    return RankRows(placement, experts, ranks).most(rows_per_expert);
  };
  return most(best) <= most(contiguous) ? best : contiguous;
}

RankRows::RankRows(const std::vector<std::int64_t>& physical_to_logical, std::int64_t experts,
                   std::int64_t ranks)
    : ranks_(ranks) {
  check_ranks(experts, ranks);
  std::vector<std::int64_t> copies(static_cast<std::size_t>(experts));
  for (const std::int64_t expert : physical_to_logical) {
    if (expert < 0 || expert >= experts)
      throw Error("an expert of a placement", std::to_string(expert), "0 to " + std::to_string(experts - 1));
    slots_.push_back({expert, 1, copies[static_cast<std::size_t>(expert)]++});
  }
  const auto missing = std::find(copies.begin(), copies.end(), 0);
  if (missing != copies.end())
    throw Error("the placement of expert " + std::to_string(missing - copies.begin()), "missing",
                "a slot on some rank");
  for (Slot& slot : slots_) slot.copies = copies[static_cast<std::size_t>(slot.expert)];
}

template <class Use>
void RankRows::for_each_slot(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert,
                             Use use) const {
  const auto slots = static_cast<std::int64_t>(slots_.size());
  const auto end = static_cast<std::size_t>(first_slot_of_rank(rank + 1, ranks_, slots));
  for (auto i = static_cast<std::size_t>(first_slot_of_rank(rank, ranks_, slots)); i < end; ++i) {
    const Slot& slot = slots_[i];
    const std::int64_t rows = rows_per_expert[static_cast<std::size_t>(slot.expert)];
    use(slot.copies == 1 ? rows : rows / slot.copies + (slot.copy < rows % slot.copies));
  }
}

std::int64_t RankRows::of_rank(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert) const {
  std::int64_t sum = 0;
  for_each_slot(rank, rows_per_expert, [&](std::int64_t rows) { sum += rows; });
  return sum;
}

BatchWork RankRows::work_of_rank(std::int64_t rank, ArrayView<const std::int64_t> rows_per_expert) const {
  BatchWork work;
  for_each_slot(rank, rows_per_expert, [&](std::int64_t rows) {
    work.rows += rows;
    work.scheduled_rows += scheduled_rows(rows, RowTileRule{});
    work.active_experts += rows > 0;
  });
  return work;
}

std::int64_t RankRows::most(ArrayView<const std::int64_t> rows_per_expert) const {
  std::int64_t most = 0;
  for (std::int64_t rank = 0; rank < ranks_; ++rank) most = std::max(most, of_rank(rank, rows_per_expert));
  return most;
}

}  // namespace dropless
