// The argument checks of the expert products: everything that the host can know, before anything is launched.
// No CUDA in it, so the host tests reach every refusal. What only the device knows (row counts, widths,
// pointers of separate tensors) is the caller's promise.
#pragma once
#include <string>

#include "argument_checks.hpp"
#include "matrix_span.hpp"
#include "product_arguments.hpp"
#include "tile_rule_check.hpp"

namespace dropless::product_checks {

inline void check_rows(const ExpertRows& rows, bool needs_tiles) {
  require_between(rows.experts, 0, 4096, "rows.experts");
  require_between(rows.rows_bound, 0, int32_max, "rows.rows_bound");
  check_tile_rule(rows.tile_rule);
  if (rows.experts == 0) return;
  require_memory(rows.row_begin, true, 4, "rows.row_begin");
  require_memory(rows.row_count, true, 4, "rows.row_count");
  if (!needs_tiles || rows.rows_bound == 0) return;
  require_memory(rows.tiles, true, alignof(RowTile), "rows.tiles");
  require_memory(rows.tile_count, true, 4, "rows.tile_count");
  require_memory(rows.tile_counter, false, 4, "rows.tile_counter");
  const std::int64_t bound = row_tile_bound(rows.rows_bound, rows.experts, rows.tile_rule);
  require(rows.tile_bound == bound, "rows.tile_bound", std::to_string(rows.tile_bound),
          std::to_string(bound) + ", the bound for these rows, experts and this tile rule");
}

/// Maps of separate matrices, where there are any, must be those of matrices of this shape.
inline void check_maps(const MatrixMaps& maps, std::int64_t rows, std::int64_t columns,
                       std::int64_t leading_dimension, ElementType type, const std::string& name) {
  if (maps.maps == nullptr) return;
  require_equal(maps.rows, rows, name + ".maps.rows");
  require_equal(maps.columns, columns, name + ".maps.columns");
  require_equal(maps.leading_dimension, leading_dimension, name + ".maps.leading_dimension");
  require_type(maps.type, type, name + ".maps.type");
}

/// One tensor of the weights: `outer` x `inner` elements of each expert as the order lays them out. What only
/// the device knows (separate tensors, how far stacked widths reach) is not in the span.
inline MatrixSpan tensor_span(const std::string& name, const ExpertWeights& weights,
                              const WeightTensor& tensor, std::int64_t outer, std::int64_t inner) {
  require_leading_dimension(weights.leading_dimension, inner, "weights.leading_dimension");
  if (tensor.matrices != nullptr) {
    check_maps(tensor.maps, outer, inner, weights.leading_dimension, weights.type, name);
    return {};
  }
  const std::int64_t bytes = element_bytes(weights.type);
  const MatrixSpan one = matrix_span(name, tensor.data, outer, inner, weights.leading_dimension, bytes);
  if (weights.widths.d_ff != nullptr) return {one.data, 1, bytes, bytes};
  require_at_least(tensor.expert_stride, 0, name + ".expert_stride");
  return repeated(one, weights.experts, checked_product(tensor.expert_stride, bytes, name.c_str()), name);
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
  const bool split = has_second(weights);
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
  const std::int64_t bytes = element_bytes(weights.type);
  const MatrixSpan first = tensor_span("weights.first", weights, weights.first, outer, inner);
  const MatrixSpan out =
      matrix_span("the output", product.out.data, rows, weights.n, product.out.leading_dimension, bytes);
  const MatrixSpan in =
      matrix_span("the input", product.in.data, rows, weights.k, product.in.leading_dimension, bytes);
  check_no_overlap(out, "the output", in, "the input");
  check_no_overlap(out, "the output", first, "weights.first");
  if (split)
    check_no_overlap(out, "the output", tensor_span("weights.second", weights, second, outer, inner),
                     "weights.second");
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

  const std::int64_t rows = product.rows.rows_bound, row_bytes = element_bytes(product.a.type);
  const MatrixSpan a = matrix_span("a", product.a.data, rows, dw.m, product.a.leading_dimension, row_bytes);
  const MatrixSpan b = matrix_span("b", product.b.data, rows, dw.n, product.b.leading_dimension, row_bytes);
  require_leading_dimension(dw.leading_dimension, dw.n, "dw.leading_dimension");
  if (dw.matrices != nullptr) return check_maps(dw.maps, dw.m, dw.n, dw.leading_dimension, dw.type, "dw");
  const std::int64_t bytes = element_bytes(dw.type);
  const MatrixSpan one = matrix_span("dw", dw.data, dw.m, dw.n, dw.leading_dimension, bytes);
  const std::int64_t least_stride = (dw.m - 1) * dw.leading_dimension + dw.n;
  if (dw.experts > 1) require_at_least(dw.expert_stride, least_stride, "dw.expert_stride");
  const MatrixSpan all =
      repeated(one, dw.experts, checked_product(dw.experts > 1 ? dw.expert_stride : 0, bytes, "dw"), "dw");
  check_no_overlap(all, "dw", a, "a");
  check_no_overlap(all, "dw", b, "b");
}

}  // namespace dropless::product_checks
