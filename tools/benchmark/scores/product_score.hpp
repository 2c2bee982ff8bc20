// The six matrix products of an expert MLP as a benchmark sees them: shape, arithmetic, least memory traffic,
// and the score of a measured time.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "benchmark_cases.hpp"
#include "dropless/cost.hpp"

namespace dropless::benchmark {

/// Input gradients (dgrad) multiply by the same weights with k and n exchanged; weight gradients (wgrad) are
/// rows^T x rows.
enum class Product { up, down, up_dgrad, down_dgrad, up_wgrad, down_wgrad };

constexpr std::array<Product, 6> all_products = {Product::up,         Product::down,     Product::up_dgrad,
                                                 Product::down_dgrad, Product::up_wgrad, Product::down_wgrad};

const char* product_name(Product product);
std::optional<Product> product_from_name(const std::string& name);
constexpr bool is_input_gradient(Product product) {
  return product == Product::up_dgrad || product == Product::down_dgrad;
}
constexpr bool is_weight_gradient(Product product) {
  return product == Product::up_wgrad || product == Product::down_wgrad;
}

/// One product over all rows. Forward and input gradient: [rows, k] times each expert's [k, n]; weight
/// gradient: each expert's [rows, k]^T times [rows, n], a result of experts * k * n.
struct ProductShape {
  std::int64_t rows = 0, k = 0, n = 0;
  std::int64_t experts = 0, nonempty_experts = 0;
  bool weight_gradient = false;

  /// Arithmetic and the bytes that must move at least once: rows in and out, and the matrices of non-empty
  /// experts (of a weight gradient: of all experts, since empty ones are written as zeros).
  ProductCost cost(ElementType type) const;
};

ProductShape product_shape(const BenchmarkCase& benchmark_case, Product product);

/// The time to be measured against: the longer of one dense product of the same total shape and the least
/// bytes at the memory rate.
double reference_us(double dense_us, double least_bytes, double memory_tbps);

}  // namespace dropless::benchmark
