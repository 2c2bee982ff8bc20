// The benchmark's arithmetic: cases as read, the ids that stand for them, and the score.
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "benchmark_cases.hpp"
#include "catch.hpp"
#include "dropless/error.hpp"
#include "product_score.hpp"
#include "statistics.hpp"
#include "temporary_folder.hpp"

namespace bench = dropless::benchmark;

namespace {

const std::string shipped_cases = std::string(DROPLESS_DATA_DIR) + "/cases/moe_shapes.json";
const std::string other_cases = std::string(DROPLESS_DATA_DIR) + "/cases/other_shapes.json";

/// The complaint about a file with this content; empty where it is accepted.
std::string complaint(const std::string& content) {
  const TemporaryFolder folder;
  try {
    bench::read_benchmark_cases(folder.write("cases.json", content));
  } catch (const dropless::FileError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string one_case(const std::string& rows, const std::string& mlp = "glu") {
  return R"([{"name":"small","d_model":64,"d_ff":32,"experts":3,"top_k":2,"tokens":4,"mlp":")" + mlp +
         R"(","rows_per_expert":)" + rows + "}]";
}

}  // namespace

TEST_CASE("the shipped benchmark cases are read whole") {
  const std::vector<bench::BenchmarkCase> cases = bench::read_benchmark_cases(shipped_cases);
  REQUIRE(cases.size() == 28);
  CHECK(cases.front().name == "mixtral_8x7b/t64/uniform");
  CHECK(cases.front().rows_per_expert == std::vector<std::int64_t>{14, 18, 13, 21, 15, 17, 16, 14});
  CHECK(cases.back().mlp == dropless::MlpKind::linear2);
  for (const bench::BenchmarkCase& c : cases) CHECK(c.rows() == c.tokens * c.top_k);

  const std::vector<bench::BenchmarkCase> others = bench::read_benchmark_cases(other_cases);
  REQUIRE(others.size() == 30);
  for (const bench::BenchmarkCase& c : others) CHECK(c.rows() == c.tokens * c.top_k);
}

TEST_CASE("router ids have the case's rows and no token meets an expert twice") {
  const std::string& path = GENERATE_REF(shipped_cases, other_cases);
  for (const bench::BenchmarkCase& c : bench::read_benchmark_cases(path)) {
    const std::vector<std::int32_t> ids = bench::router_ids(c);
    std::vector<std::int64_t> rows(static_cast<std::size_t>(c.experts), 0);
    bool repeated = false;
    for (std::int64_t token = 0; token < c.tokens; ++token) {
      std::set<std::int32_t> chosen;
      for (std::int64_t slot = 0; slot < c.top_k; ++slot) {
        const std::int32_t id = ids[static_cast<std::size_t>(token * c.top_k + slot)];
        REQUIRE(id >= 0);
        ++rows[static_cast<std::size_t>(id)];
        repeated |= !chosen.insert(id).second;
      }
    }
    INFO(c.name);
    CHECK(rows == c.rows_per_expert);
    CHECK_FALSE(repeated);
  }
}

TEST_CASE("assignments beyond the rows of a case are unrouted") {
  bench::BenchmarkCase c;
  c.experts = 2;
  c.tokens = 5;
  c.top_k = 2;
  c.rows_per_expert = {3, 1};
  // The step is 4, so the four rows go to tokens 0, 4, 3 and 2.
  const std::vector<std::int32_t> expected{0, -1, -1, -1, 1, -1, 0, -1, 0, -1};
  CHECK(bench::router_ids(c) == expected);
}

TEST_CASE("a bad case file is refused with its place") {
  CHECK(complaint(one_case("[3,0,5]")).empty());
  CHECK(contains(complaint("[{"), "is not JSON"));
  CHECK(contains(complaint("{}"), "is no list with elements"));
  CHECK(contains(complaint("[{\"d_model\":1}]"), "[0].name: is missing"));
  CHECK(contains(complaint(one_case("[3,0]")), "[0].rows_per_expert: has 2 entries"));
  CHECK(contains(complaint(one_case("[3,-1,5]")), "[0].rows_per_expert[1]: is -1; expected 0..2147483647"));
  CHECK(contains(complaint(one_case("[3,1,5]")), "sums to 9; expected at most tokens * top_k = 8"));
  CHECK(contains(complaint(one_case("[3,0.5,5]")), "[0].rows_per_expert[1]: is no whole number"));
  CHECK(contains(complaint(one_case("[3,0,5]", "dense")), "[0].mlp: is dense; expected linear2 or glu"));
  CHECK_THROWS_AS(bench::read_benchmark_cases("no/such/file.json"), dropless::FileError);
}

TEST_CASE("shapes, arithmetic and bytes of the benchmark's products") {
  bench::BenchmarkCase c;
  c.d_model = 64;
  c.d_ff = 32;
  c.experts = 3;
  c.rows_per_expert = {3, 0, 5};
  constexpr dropless::ElementType bf16 = dropless::ElementType::bf16;
  const bench::ProductShape up = bench::product_shape(c, bench::Product::up);
  CHECK(up.k == 64);
  CHECK(up.n == 64);
  const bench::ProductShape down_dgrad = bench::product_shape(c, bench::Product::down_dgrad);
  CHECK(down_dgrad.k == 64);
  CHECK(down_dgrad.n == 32);
  CHECK(down_dgrad.cost(bf16).flops == 2 * 8 * 64 * 32);
  CHECK(down_dgrad.cost(bf16).bytes() == 2 * (8 * (64 + 32) + 2 * 64 * 32));
  const bench::ProductShape down_wgrad = bench::product_shape(c, bench::Product::down_wgrad);
  CHECK(down_wgrad.k == 32);
  CHECK(down_wgrad.n == 64);
  CHECK(down_wgrad.cost(bf16).bytes() == 2 * (8 * (64 + 32) + 3 * 64 * 32));
}

TEST_CASE("the reference is the longer of the dense time and the bytes") {
  CHECK(bench::reference_us(100, 4e8, 4) == Approx(100));
  CHECK(bench::reference_us(99, 4e8, 4) == Approx(100));
  CHECK(bench::reference_us(150, 4e8, 4) == Approx(150));
}

TEST_CASE("products go by their names") {
  for (const bench::Product product : bench::all_products)
    CHECK(bench::product_from_name(bench::product_name(product)) == product);
  CHECK_FALSE(bench::product_from_name("sideways").has_value());
}

TEST_CASE("statistics of rounds") {
  CHECK(bench::median({}) == 0);
  CHECK(bench::median({3, 1, 2}) == 2);
  CHECK(bench::median({4, 1, 2, 3}) == 2.5);
  CHECK(bench::relative_spread({10, 9, 11}) == Approx(0.2));
  CHECK(bench::geometric_mean({0.5, 2, 1}) == Approx(1));
  CHECK(bench::geometric_mean({}) == 0);
}
