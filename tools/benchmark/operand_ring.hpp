// The operands of one timed product. Every contestant gets the same memory: slots of row matrices and copies
// of the weights, taken in turn by call index, so many that what a call reads has left the L2 cache since it
// was last used.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "dropless/expert_products.hpp"
#include "dropless/integer_math.hpp"
#include "product_score.hpp"
#include "timing.hpp"

namespace dropless::benchmark {

/// How often each operand is held, and where the holds begin. Bytes between two begin on 256-byte boundaries.
struct RingLayout {
  RingLayout(const ProductShape& product_shape, ElementType element_type)
      : shape(product_shape), type(element_type) {
    const std::int64_t bytes = element_bytes(type);
    a_bytes = round_up(shape.rows * shape.k * bytes, 256);
    b_bytes = round_up(shape.rows * shape.n * bytes, 256);
    matrix_bytes = shape.k * shape.n * bytes;
    weight_bytes = round_up(shape.experts * matrix_bytes, 256);
    // The dense product touches one matrix a call, a ragged one those of all non-empty experts.
    row_slots = ceil_div(least_bytes_per_turn, a_bytes + b_bytes + matrix_bytes);
    const std::int64_t matrices = shape.weight_gradient ? shape.experts : shape.nonempty_experts;
    weight_copies = ceil_div(least_bytes_per_turn, a_bytes + b_bytes + matrices * matrix_bytes);
  }

  ProductShape shape;
  ElementType type;
  std::int64_t a_bytes, b_bytes, matrix_bytes, weight_bytes;
  std::int64_t row_slots, weight_copies;
};

/// The operands in memory that belongs to the caller. a: [rows, k]; b: [rows, n]; weights: [experts, k, n] in
/// `order`. A forward product or input gradient writes b, a weight gradient writes the weights (k by n).
struct OperandRing {
  RingLayout layout;
  WeightOrder order;
  std::byte *a, *b, *weights;

  void* a_at(std::int64_t index) const { return a + index % layout.row_slots * layout.a_bytes; }
  void* b_at(std::int64_t index) const { return b + index % layout.row_slots * layout.b_bytes; }
  std::byte* weights_at(std::int64_t index) const {
    return weights + index % layout.row_slots % layout.weight_copies * layout.weight_bytes;
  }
  /// One expert's matrix for the dense product, another with every call.
  void* dense_matrix_at(std::int64_t index) const {
    const std::int64_t copy = index / layout.shape.experts % layout.weight_copies;
    return weights + copy * layout.weight_bytes + index % layout.shape.experts * layout.matrix_bytes;
  }

  void* result_at(std::int64_t index) const {
    return layout.shape.weight_gradient ? weights_at(index) : b_at(index);
  }
  std::int64_t result_elements() const {
    return layout.shape.n *
           (layout.shape.weight_gradient ? layout.shape.experts * layout.shape.k : layout.shape.rows);
  }
};

}  // namespace dropless::benchmark
