// Reads the cases, checks that their counts fit their shapes, and lays out the ids that stand for them.
#include "benchmark_cases.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "dropless/error.hpp"

namespace dropless::benchmark {
namespace {

using Json = nlohmann::json;

/// One case of the file, by keys; every complaint names the file, the case and the key.
class CaseReader {
 public:
  CaseReader(const std::string& path, std::size_t index, const Json& object)
      : path_(path), place_("case " + std::to_string(index)), object_(object) {
    if (!object.is_object()) refuse("not an object");
    const std::string name = text("name");
    place_ += " (" + name + ")";
  }

  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(std::string(key) + " is no string");
    return value.get<std::string>();
  }
  std::int64_t integer(const char* key, std::int64_t least, std::int64_t most) const {
    return checked(key, at(key), least, most);
  }
  std::vector<std::int64_t> integers(const char* key, std::int64_t least, std::int64_t most) const {
    const Json& value = at(key);
    if (!value.is_array()) refuse(std::string(key) + " is no array");
    std::vector<std::int64_t> numbers;
    for (const Json& entry : value) numbers.push_back(checked(key, entry, least, most));
    return numbers;
  }
  [[noreturn]] void refuse(const std::string& reason) const { throw FileError(path_, place_, reason); }

 private:
  const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) refuse(std::string("has no ") + key);
    return *found;
  }
  std::int64_t checked(const char* key, const Json& value, std::int64_t least, std::int64_t most) const {
    if (!value.is_number_integer()) refuse(std::string(key) + " is no integer");
    const auto number = value.get<std::int64_t>();
    if (number < least || number > most)
      refuse(std::string(key) + " holds " + std::to_string(number) + "; expected " + std::to_string(least) +
             ".." + std::to_string(most));
    return number;
  }

  const std::string& path_;
  std::string place_;
  const Json& object_;
};

BenchmarkCase read_case(const CaseReader& reader) {
  constexpr std::int64_t most_rows = (std::int64_t{1} << 31) - 1, most_width = std::int64_t{1} << 20;
  BenchmarkCase result;
  result.name = reader.text("name");
  result.d_model = reader.integer("d_model", 1, most_width);
  result.d_ff = reader.integer("d_ff", 1, most_width);
  result.experts = reader.integer("experts", 1, 4096);
  result.top_k = reader.integer("top_k", 1, 128);
  result.tokens = reader.integer("tokens", 1, most_rows / result.top_k);
  const std::string mlp = reader.text("mlp");
  try {
    result.mlp = mlp_kind_from_name(mlp);
  } catch (const Error& error) {
    reader.refuse(error.what());
  }
  result.rows_per_expert = reader.integers("rows_per_expert", 0, most_rows);
  if (static_cast<std::int64_t>(result.rows_per_expert.size()) != result.experts)
    reader.refuse("rows_per_expert has " + std::to_string(result.rows_per_expert.size()) +
                  " entries; expected one for each of " + std::to_string(result.experts) + " experts");
  if (result.rows() > result.tokens * result.top_k)
    reader.refuse("rows_per_expert sums to " + std::to_string(result.rows()) +
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
  std::ifstream file(path);
  if (!file) throw FileError(path, "", "cannot be opened");
  Json document;
  try {
    document = Json::parse(file);
  } catch (const Json::parse_error& error) {
    throw FileError(path, "byte " + std::to_string(error.byte), "is no valid JSON");
  }
  if (!document.is_array()) throw FileError(path, "", "holds no JSON array of cases");
  std::vector<BenchmarkCase> cases;
  for (std::size_t i = 0; i < document.size(); ++i)
    cases.push_back(read_case(CaseReader(path, i, document[i])));
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
