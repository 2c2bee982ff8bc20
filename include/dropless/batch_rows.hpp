// Rows per expert of one batch with the sums over experts that policies and metrics share. A report asks a
// dozen policies about every batch of a trace, so nothing is allocated from batch to batch and the sums are
// quick: where experts have few rows, they run over how many experts have how many rows; elsewhere,
// vectorised over a narrow copy of the counts, each at most once a batch.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dropless/array_view.hpp"

namespace dropless {

/// One batch as policies and metrics see it. Reused from batch to batch by one thread (the sums are
/// remembered in mutable members, so even const calls must not run on two threads at once).
class BatchRows {
 public:
  BatchRows() = default;
  BatchRows(ArrayView<const std::int64_t> rows_per_expert, std::int64_t tokens, std::int64_t top_k) {
    assign(rows_per_expert, tokens, top_k);
  }

  /// Takes the next batch. `rows_per_expert` is [experts], each 0 or more, and must outlive the queries;
  /// tokens and top_k are 0 where unknown. A negative count, more than 65536 experts or more than 2^40 rows
  /// throw Error: within these bounds no sum that a policy forms wraps.
  void assign(ArrayView<const std::int64_t> rows_per_expert, std::int64_t tokens, std::int64_t top_k);

  ArrayView<const std::int64_t> rows_per_expert() const { return rows_per_expert_; }
  std::int64_t experts() const { return static_cast<std::int64_t>(rows_per_expert_.size()); }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t top_k() const { return top_k_; }
  std::int64_t rows() const { return rows_; }                      ///< sum of rows_per_expert
  std::int64_t largest() const { return largest_; }                ///< most rows of one expert
  std::int64_t active_experts() const { return active_experts_; }  ///< experts with at least one row
  double sum_of_squares() const { return sum_of_squares_; }        ///< sum of rows^2, for the variance
  /// [t]: how many experts have t rows, up to largest() at least; empty where an expert has many rows.
  ArrayView<const std::uint32_t> experts_with() const { return {experts_with_.data(), levels_}; }

  /// Sum over experts of rows rounded up to a multiple of `multiple`, in [1, 2^20].
  std::int64_t rounded_up(std::int64_t multiple) const {
    return multiple >= largest_ ? active_experts_ * multiple : sum_rounded_up(multiple);
  }
  /// Sum over experts of min(rows, capacity).
  std::int64_t capped(std::int64_t capacity) const {
    return capacity >= largest_ ? rows_ : sum_capped(capacity);
  }

 private:
  // The sums, by the quickest of three ways that the counts fit; false: they do not.
  bool sum_levels();
  bool sum_narrow();
  void sum_wide();
  std::int64_t sum_rounded_up(std::int64_t multiple) const;
  std::int64_t sum_capped(std::int64_t capacity) const;

  ArrayView<const std::int64_t> rows_per_expert_;
  std::array<std::uint32_t, 32> experts_with_;
  std::size_t levels_ = 0;             // how many of experts_with_ are known; 0 where an expert has more rows
  std::vector<std::uint32_t> narrow_;  // the counts in 32 bits, empty where they or their sums need more
  std::int64_t tokens_ = 0, top_k_ = 0, rows_ = 0, largest_ = 0, active_experts_ = 0;
  double sum_of_squares_ = 0;
  mutable std::array<std::int64_t, 13> rounded_to_power_;  // [p]: rounded up to 2^p, or -1: not computed yet
};

}  // namespace dropless
