// From stored numbers to counts: one run of tokens of one batch, in whatever type and stride it lies in
// memory.
#pragma once
#include <cstdint>
#include <string>

#include "traces/count_rows.hpp"
#include "traces/number_format.hpp"

namespace dropless::traces {

/// A number that is no expert id or no count, by its index in the run (row-major); -1: none.
struct BadNumber {
  std::int64_t index = -1;
  std::string reason;
};

/// Why an id past the experts is none. Who pads with the number of experts learns what padding is.
std::string no_such_expert(std::int64_t id, std::int64_t experts);

/// Adds a run of rows of expert ids to `rows_per_expert` [experts].
RunFacts count_ids(const NumberFormat& format, const NumberTable& rows, std::int64_t experts,
                   std::int64_t* rows_per_expert, BadNumber& bad);

/// Adds a run of rows of counts, one for each expert, to `rows_per_expert` [rows.columns].
void add_counts(const NumberFormat& format, const NumberTable& rows, std::int64_t* rows_per_expert,
                BadNumber& bad);

/// The largest number of the table, at least -1.
std::int64_t largest_id(const NumberFormat& format, const NumberTable& rows, BadNumber& bad);

}  // namespace dropless::traces
