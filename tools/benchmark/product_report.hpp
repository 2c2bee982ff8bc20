// How the products' figures are shown: a table as they come, means at the end, and JSON for those who compare
// runs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bandwidth.hpp"
#include "benchmark_cases.hpp"
#include "product_benchmark.hpp"

namespace dropless::benchmark {

/// What holds for the whole run.
struct ProductRun {
  GpuDescription gpu;
  MemoryRates rates;
  std::string commit;
  std::string dropless_version;
  int cublas_version = 0;
  ProductBenchmarkOptions options;
  std::vector<std::string> peers_not_run;
};

/// One case with its topology, which was built before the products and is timed apart.
struct CaseResult {
  BenchmarkCase benchmark_case;
  std::int64_t scheduled_rows = 0;
  double topology_us = 0;
  std::size_t metadata_bytes = 0;
  std::size_t workspace_bytes = 0;
  std::vector<ProductResult> products;
};

void print_header(const ProductRun& run);
void print_case(const CaseResult& result);
void print_product(const ProductResult& result, double tolerance);
/// Geometric means and worst scores of every contestant, by kind of product.
void print_summary(const std::vector<CaseResult>& cases);

nlohmann::ordered_json to_json(const ProductRun& run, const std::vector<CaseResult>& cases);

}  // namespace dropless::benchmark
