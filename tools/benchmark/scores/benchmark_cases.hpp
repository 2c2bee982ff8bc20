// The benchmark's cases: routing of published MoE models, read from JSON (data/cases/moe_shapes.json), and
// the router ids that stand for a case's rows per expert.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dropless/mlp_kind.hpp"

namespace dropless::benchmark {

struct BenchmarkCase {
  std::string name;
  std::int64_t d_model = 0;
  std::int64_t d_ff = 0;
  std::int64_t experts = 0;
  std::int64_t top_k = 0;
  std::int64_t tokens = 0;
  MlpKind mlp = MlpKind::glu;
  std::vector<std::int64_t> rows_per_expert;  ///< [experts]; their sum is at most tokens * top_k

  std::int64_t rows() const;
  std::int64_t nonempty_experts() const;
};

/// Reads a JSON array of objects {name, d_model, d_ff, experts, top_k, mlp, tokens, rows_per_expert}; other
/// keys are ignored. Throws FileError naming the place that is missing or out of range.
std::vector<BenchmarkCase> read_benchmark_cases(const std::string& path);

/// Router ids [tokens, top_k], token-major, with exactly the case's rows per expert: the i-th assignment in
/// expert order goes to token p[i mod T], slot i div T, where p[j] = (j * a) mod T and a is the smallest
/// integer from 0.618 T on that is coprime with T. No token meets an expert twice where every expert has at
/// most T rows. Assignments beyond the sum of the rows are -1.
std::vector<std::int32_t> router_ids(const BenchmarkCase& benchmark_case);

}  // namespace dropless::benchmark
