// Which row each assignment became: all that moving rows between token order and expert order needs.
#pragma once
#include <cstdint>

namespace dropless {

/// The order of one batch, packed or blocked. `assignment_to_row` is device memory of the topology that built
/// it and must outlive every call that uses it.
struct RowOrder {
  std::int64_t tokens = 0;
  std::int64_t top_k = 1;
  const std::int32_t* assignment_to_row = nullptr;  ///< [tokens, top_k]; -1 where the assignment is no row
};

}  // namespace dropless
