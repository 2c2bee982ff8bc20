// The argument checks of the expert products: everything that the host can know, before anything is launched.
// No CUDA in it, so the host tests reach every refusal. What only the device knows (row counts, widths,
// pointers of separate tensors) is the caller's promise.
#pragma once
#include <string>

#include "product_arguments.hpp"
#include "tile_rule_check.hpp"

namespace dropless::product_checks {

inline void require(bool holds, const std::string& argument, const std::string& value,
                    const std::string& expectation) {
  if (!holds) throw Error(argument, value, expectation);
}

inline void require_between(std::int64_t value, std::int64_t low, std::int64_t high,
                            const std::string& argument) {
  require(low <= value && value <= high, argument, std::to_string(value),
          std::to_string(low) + ".." + std::to_string(high));
}

inline void require_at_least(std::int64_t value, std::int64_t low, const std::string& argument) {
  require(value >= low, argument, std::to_string(value), std::to_string(low) + " or more");
}

inline void require_type(ElementType type, ElementType expected, const std::string& argument) {
  require(type == expected, argument, element_name(type), element_name(expected));
}

inline constexpr std::int64_t int32_max = std::numeric_limits<std::int32_t>::max();

/// Addresses that an operand may touch, as far as the host knows.
struct AddressRange {
  std::string name;
  std::uintptr_t begin;
  std::int64_t bytes;
};

/// A matrix of `rows` rows: its data must be there and hold its leading dimension.
inline AddressRange matrix_range(const std::string& name, const void* data, std::int64_t rows,
                                 std::int64_t columns, std::int64_t leading_dimension, ElementType type) {
  require_at_least(leading_dimension, columns, name + ".leading_dimension");
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (rows == 0) return {name, address, 0};
  require(data != nullptr, name + ".data", "null", "device memory");
  require(address % static_cast<std::uintptr_t>(element_bytes(type)) == 0, name + ".data", "misaligned",
          "an address that is a multiple of the element size");
  const std::int64_t last_row = checked_product(rows - 1, leading_dimension, name.c_str());
  const std::int64_t elements = checked_sum(last_row, columns, name.c_str());
  return {name, address, checked_product(elements, element_bytes(type), name.c_str())};
}

inline void require_apart(const AddressRange& output, const AddressRange& input) {
  const bool apart = output.bytes == 0 || input.bytes == 0 ||
                     output.begin >= input.begin + static_cast<std::uintptr_t>(input.bytes) ||
                     input.begin >= output.begin + static_cast<std::uintptr_t>(output.bytes);
  require(apart, output.name, "overlapping " + input.name, "memory of its own");
}

inline void check_rows(const ExpertRows& rows, bool needs_tiles) {
  require_between(rows.experts, 0, 4096, "rows.experts");
  require_between(rows.rows_bound, 0, int32_max, "rows.rows_bound");
  check_tile_rule(rows.tile_rule);
  if (rows.experts == 0) return;
  require(rows.row_begin != nullptr, "rows.row_begin", "null", "device memory");
  require(rows.row_count != nullptr, "rows.row_count", "null", "device memory");
  if (!needs_tiles || rows.rows_bound == 0) return;
  require(rows.tiles != nullptr, "rows.tiles", "null", "device memory");
  require(rows.tile_count != nullptr, "rows.tile_count", "null", "device memory");
  const std::int64_t bound = row_tile_bound(rows.rows_bound, rows.experts, rows.tile_rule);
  require(rows.tile_bound == bound, "rows.tile_bound", std::to_string(rows.tile_bound),
          std::to_string(bound) + ", the bound for these rows, experts and this tile rule");
}

/// One tensor of the weights; `outer` x `inner` elements of each expert as the order lays them out.
inline AddressRange tensor_range(const std::string& name, const ExpertWeights& weights,
                                 const WeightTensor& tensor, std::int64_t outer, std::int64_t inner) {
  require_at_least(weights.leading_dimension, inner, "weights.leading_dimension");
  if (tensor.matrices != nullptr) return {name, 0, 0};
  const AddressRange one =
      matrix_range(name, tensor.data, outer, inner, weights.leading_dimension, weights.type);
  // How far stacked widths reach is known on the device alone.
  if (weights.widths.d_ff != nullptr) return {name, one.begin, element_bytes(weights.type)};
  require_at_least(tensor.expert_stride, 0, name + ".expert_stride");
  const std::int64_t last = checked_product(weights.experts - 1, tensor.expert_stride, name.c_str());
  return {
      name, one.begin,
      checked_sum(one.bytes, checked_product(last, element_bytes(weights.type), name.c_str()), name.c_str())};
}

inline void check(const RowsByWeights& product) {
  const ExpertWeights& weights = product.weights;
  check_rows(product.rows, true);
  require(weights.experts == product.rows.experts, "weights.experts", std::to_string(weights.experts),
          std::to_string(product.rows.experts) + ", the experts of the rows");
  require_between(weights.k, 1, int32_max, "weights.k");
  require_between(weights.n, 1, int32_max, "weights.n");
  require_type(product.in.type, weights.type, "the input's element type");
  require_type(product.out.type, weights.type, "the output's element type");

  const WeightTensor& second = weights.second;
  const bool split = second.data != nullptr || second.matrices != nullptr;
  std::int64_t k = weights.k, n = weights.n;
  if (split) {
    std::int64_t& halved = product.split_n ? n : k;
    require(halved % 2 == 0, product.split_n ? "weights.n" : "weights.k", std::to_string(halved),
            "an even number, as two tensors share it");
    halved /= 2;
  }
  const bool narrowed = weights.widths.d_ff != nullptr;
  require(!narrowed || weights.widths.d_ff_begin != nullptr || weights.first.matrices != nullptr,
          "weights.widths.d_ff_begin", "null", "device memory, as widths are given");
  if (weights.experts == 0) return;

  const bool k_by_n = weights.order == WeightOrder::k_by_n;
  const std::int64_t rows = product.rows.rows_bound, outer = k_by_n ? k : n, inner = k_by_n ? n : k;
  const AddressRange first = tensor_range("weights.first", weights, weights.first, outer, inner);
  const AddressRange out = matrix_range("the output", product.out.data, rows, weights.n,
                                        product.out.leading_dimension, weights.type);
  require_apart(out, matrix_range("the input", product.in.data, rows, weights.k, product.in.leading_dimension,
                                  weights.type));
  require_apart(out, first);
  if (split) require_apart(out, tensor_range("weights.second", weights, second, outer, inner));
}

inline void check(const RowsTransposedByRows& product) {
  const ExpertGradients& dw = product.dw;
  check_rows(product.rows, false);
  require(dw.experts == product.rows.experts, "dw.experts", std::to_string(dw.experts),
          std::to_string(product.rows.experts) + ", the experts of the rows");
  require_between(dw.m, 1, int32_max, "dw.m");
  require_between(dw.n, 1, int32_max, "dw.n");
  require_type(product.b.type, product.a.type, "b.type");
  if (dw.type != ElementType::fp32) require_type(dw.type, product.a.type, "dw.type");
  if (dw.experts == 0) return;

  const std::int64_t rows = product.rows.rows_bound;
  const AddressRange a =
      matrix_range("a", product.a.data, rows, dw.m, product.a.leading_dimension, product.a.type);
  const AddressRange b =
      matrix_range("b", product.b.data, rows, dw.n, product.b.leading_dimension, product.b.type);
  require_at_least(dw.leading_dimension, dw.n, "dw.leading_dimension");
  if (dw.matrices != nullptr) return;
  AddressRange out = matrix_range("dw", dw.data, dw.m, dw.n, dw.leading_dimension, dw.type);
  if (dw.experts > 1) {
    require_at_least(dw.expert_stride, out.bytes / element_bytes(dw.type), "dw.expert_stride");
    const std::int64_t last = checked_product(dw.experts - 1, dw.expert_stride, "dw");
    out.bytes = checked_sum(out.bytes, checked_product(last, element_bytes(dw.type), "dw"), "dw");
  }
  require_apart(out, a);
  require_apart(out, b);
}

}  // namespace dropless::product_checks
