// A matrix of rows in device memory, as products and permutations take it.
#pragma once
#include <cstdint>

#include "dropless/element_type.hpp"

namespace dropless {

/// A row matrix [rows, columns] in device memory; element (r, c) is data[r * leading_dimension + c].
struct RowsView {
  const void* data = nullptr;
  std::int64_t leading_dimension = 0;  ///< in elements, at least the columns used
  ElementType type = ElementType::bf16;
};
struct MutableRowsView {
  void* data = nullptr;
  std::int64_t leading_dimension = 0;
  ElementType type = ElementType::bf16;
};

}  // namespace dropless
