// Reads the cases, checks that their counts fit their shapes, and lays out the ids that stand for them.
#include "benchmark_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "argument_checks.hpp"
#include "json_file.hpp"

namespace dropless::benchmark {
namespace {

BenchmarkCase read_case(const JsonValue& entry) {
  constexpr std::int64_t most_rows = int32_max, most_width = std::int64_t{1} << 20;
  BenchmarkCase result;
  result.name = entry.at("name").text();
  result.d_model = entry.at("d_model").whole_number(1, most_width);
  result.d_ff = entry.at("d_ff").whole_number(1, most_width);
  result.experts = entry.at("experts").whole_number(1, 4096);
  result.top_k = entry.at("top_k").whole_number(1, 128);
  result.tokens = entry.at("tokens").whole_number(1, most_rows / result.top_k);
  result.mlp = entry.at("mlp").named(mlp_kind_from_name);
  const JsonValue rows_per_expert = entry.at("rows_per_expert");
  for (const JsonValue& rows : rows_per_expert.elements())
    result.rows_per_expert.push_back(rows.whole_number(0, most_rows));
  if (static_cast<std::int64_t>(result.rows_per_expert.size()) != result.experts)
    rows_per_expert.refuse("has " + std::to_string(result.rows_per_expert.size()) +
                           " entries; expected one for each of " + std::to_string(result.experts) +
                           " experts");
  if (result.rows() > result.tokens * result.top_k)
    rows_per_expert.refuse(
        "sums to " + std::to_string(result.rows()) +
        "; expected at most tokens * top_k = " + std::to_string(result.tokens * result.top_k));
  return result;
}

}  // namespace

std::int64_t BenchmarkCase::rows() const {
  return std::accumulate(rows_per_expert.begin(), rows_per_expert.end(), std::int64_t{0});
}

std::int64_t BenchmarkCase::nonempty_experts() const {
  return std::count_if(rows_per_expert.begin(), rows_per_expert.end(),
                       [](std::int64_t rows) { return rows > 0; });
}

std::vector<BenchmarkCase> read_benchmark_cases(const std::string& path) {
  const nlohmann::json document = read_json_file(path);
  std::vector<BenchmarkCase> cases;
  for (const JsonValue& entry : JsonValue(path, "", document).elements()) cases.push_back(read_case(entry));
  return cases;
}

std::vector<std::int32_t> router_ids(const BenchmarkCase& benchmark_case) {
  const std::int64_t tokens = benchmark_case.tokens, top_k = benchmark_case.top_k;
  auto step = static_cast<std::int64_t>(std::ceil(0.618 * static_cast<double>(tokens)));
  while (std::gcd(step, tokens) != 1) ++step;
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * top_k), -1);
  std::int64_t assignment = 0;
  for (std::size_t expert = 0; expert < benchmark_case.rows_per_expert.size(); ++expert)
    for (std::int64_t row = 0; row < benchmark_case.rows_per_expert[expert]; ++row, ++assignment) {
      const std::int64_t token = assignment % tokens * step % tokens, slot = assignment / tokens;
      ids[static_cast<std::size_t>(token * top_k + slot)] = static_cast<std::int32_t>(expert);
    }
  return ids;
}

}  // namespace dropless::benchmark
