// FLOPs and bytes of the products, each written once, with every multiplication checked.
#include "dropless/cost.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "ratio.hpp"

namespace dropless {
namespace {

std::int64_t product_of(std::initializer_list<std::int64_t> factors, const char* what) {
  std::int64_t result = 1;
  for (const std::int64_t factor : factors) {
    if (factor < 0) throw Error(what, "a product with " + std::to_string(factor), "factors of 0 or more");
    result = checked_product(result, factor, what);
  }
  return result;
}

}  // namespace

std::int64_t mlp_flops(MlpKind kind, std::int64_t rows, std::int64_t d_model, std::int64_t d_ff) {
  return product_of({kind == MlpKind::glu ? 6 : 4, rows, d_model, d_ff}, "FLOPs");
}

std::int64_t expert_weight_bytes(MlpKind kind, std::int64_t d_model, std::int64_t d_ff, ElementType dtype) {
  return product_of({kind == MlpKind::glu ? 3 : 2, d_model, d_ff, element_bytes(dtype)}, "weight bytes");
}

double ProductCost::intensity() const { return ratio(flops, bytes()); }

ProductCost product_cost(std::int64_t rows, std::int64_t active_experts, std::int64_t k, std::int64_t n,
                         ElementType dtype) {
  ProductCost cost;
  cost.flops = product_of({2, rows, k, n}, "FLOPs");
  cost.weight_bytes = product_of({active_experts, k, n, element_bytes(dtype)}, "weight bytes");
  cost.activation_bytes =
      product_of({rows, checked_sum(k, n, "columns"), element_bytes(dtype)}, "activation bytes");
  checked_sum(cost.weight_bytes, cost.activation_bytes, "bytes");
  return cost;
}

ProductCost up_product_cost(MlpKind kind, std::int64_t rows, std::int64_t active_experts,
                            std::int64_t d_model, std::int64_t d_ff, ElementType dtype) {
  return product_cost(rows, active_experts, d_model, up_columns(kind, d_ff), dtype);
}

ProductCost down_product_cost(std::int64_t rows, std::int64_t active_experts, std::int64_t d_model,
                              std::int64_t d_ff, ElementType dtype) {
  return product_cost(rows, active_experts, d_ff, d_model, dtype);
}

double attainable_gflops(double intensity, double bandwidth, double peak) {
  for (const auto& [name, value] :
       {std::pair{"intensity", intensity}, {"bandwidth", bandwidth}, {"peak", peak}})
    if (!(value > 0)) throw Error(name, std::to_string(value), "a number above 0");
  return std::min(peak, intensity * bandwidth);
}

}  // namespace dropless
