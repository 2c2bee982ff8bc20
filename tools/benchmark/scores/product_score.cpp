// Shapes, FLOPs, least bytes and scores of the six products.
#include "product_score.hpp"

#include <algorithm>

namespace dropless::benchmark {

const char* product_name(Product product) {
  switch (product) {
    case Product::up:
      return "up";
    case Product::down:
      return "down";
    case Product::up_dgrad:
      return "up_dgrad";
    case Product::down_dgrad:
      return "down_dgrad";
    case Product::up_wgrad:
      return "up_wgrad";
    case Product::down_wgrad:
      return "down_wgrad";
  }
  return "";
}

std::optional<Product> product_from_name(const std::string& name) {
  for (const Product product : all_products)
    if (name == product_name(product)) return product;
  return std::nullopt;
}

ProductCost ProductShape::cost(ElementType type) const {
  return product_cost(rows, weight_gradient ? experts : nonempty_experts, k, n, type);
}

ProductShape product_shape(const BenchmarkCase& benchmark_case, Product product) {
  const bool is_up = product == Product::up || product == Product::up_dgrad || product == Product::up_wgrad;
  ProductShape shape;
  shape.rows = benchmark_case.rows();
  shape.k = is_up ? benchmark_case.d_model : benchmark_case.d_ff;
  shape.n = is_up ? up_columns(benchmark_case.mlp, benchmark_case.d_ff) : benchmark_case.d_model;
  if (is_input_gradient(product)) std::swap(shape.k, shape.n);
  shape.experts = benchmark_case.experts;
  shape.nonempty_experts = benchmark_case.nonempty_experts();
  shape.weight_gradient = is_weight_gradient(product);
  return shape;
}

double reference_us(double dense_us, double least_bytes, double memory_tbps) {
  return std::max(dense_us, least_bytes / memory_tbps * 1e-6);
}

}  // namespace dropless::benchmark
