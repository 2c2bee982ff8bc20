// The modelled time of a batch's slowest rank: exact on hardware with round figures, in every output, and in
// a comparison.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "report/advice.hpp"
#include "report/compare.hpp"
#include "report/html_page.hpp"
#include "report/report_json.hpp"

using namespace dropless;

namespace {

// Widths 256, 1 GB/s and a peak that never binds: an expert's weights take 131.072 us a product, a row 1.024.
constexpr double weights = 131.072, row = 1.024;

ReportOptions timed(std::int64_t ranks, const std::string& placement, std::int64_t replicas = 0) {
  ReportOptions options;
  options.policies = {"dropless"};
  options.workers = 1;
  options.ranks = ranks;
  options.placement = placement;
  options.replicas = replicas;
  options.model = ModelShape{"square", MlpKind::linear2, 256, 256, 4, 1, 1, ElementType::bf16, "the test"};
  TimeModel model;
  model.hardware = {"unit", 1e6, 1e6, 1e6, 1, 1, ""};
  options.time = model;
  return options;
}

MemoryTrace trace() { return {4, 1, {{0, {4, 4, 0, 0}}, {0, {0, 0, 8, 0}}}}; }

}  // namespace

TEST_CASE("rank time: the slowest rank is not always the fullest") {
  MemoryTrace lopsided(4, 1, {{0, {5, 5, 30, 0}}});
  const Report report = make_report(lopsided, timed(2, "strided"));
  const auto& placements = report.totals.ranks->placements;
  REQUIRE(placements.size() == 2);
  // Contiguous: 10 rows of two experts against 30 of one, whose weights are read once.
  CHECK(placements[0].all.fullest_rank_rows == 30);
  CHECK(placements[0].all.slowest_rank->us == Approx(2 * (2 * weights + 10 * row)));
  // Strided: 35 rows of two experts.
  CHECK(placements[1].all.slowest_rank->us == Approx(2 * (2 * weights + 35 * row)));
  CHECK(placements[1].all.slowest_rank->memory_bound_share == 1);
}

TEST_CASE("rank time: replicas read their weights on every rank") {
  MemoryTrace hot(2, 1, {{0, {64, 0}}, {0, {64, 0}}});
  const Report report = make_report(hot, timed(2, "balanced", 1));
  const PlacementFigures& balanced = report.totals.ranks->placements[2];
  CHECK(report.placement->physical_to_logical == std::vector<std::vector<std::int64_t>>{{0, 1, 0}});
  CHECK(balanced.first_half->slowest_rank->us == Approx(2 * (weights + 32 * row)));
  CHECK(balanced.second_half->slowest_rank->p50 == Approx(2 * (weights + 32 * row)));
  CHECK(report.totals.ranks->placements[0].all.slowest_rank->us == Approx(2 * 2 * (weights + 64 * row)));
  CHECK(*balanced.extra_weight_bytes == 2 * 256 * 256 * 2);
}

TEST_CASE("rank time: text, JSON, page and advice name it, and none does without hardware") {
  MemoryTrace read = trace();
  ReportOptions options = timed(2, "");
  const Report report = make_report(read, options);
  // Contiguous takes 2 (2 weights + 8 rows), then 2 (weights + 8 rows); strided weights + 4 rows, then the
  // same.
  CHECK_THAT(report_text(report),
             Catch::Contains("Time of a batch's slowest rank, us: a model, not a measurement\n") &&
                 Catch::Contains("contiguous         409.6     388.1     523.0     537.1\n") &&
                 Catch::Contains("strided            274.4     274.4     278.1     278.4\n"));
  const auto document = report_document(report);
  const auto& all = document["totals"]["ranks"]["placements"][0]["all"];
  CHECK(all["slowest_rank_time_us"].get<double>() == Approx(2 * (3 * weights + 16 * row)));
  CHECK_THAT(html_page(document),
             Catch::Contains("Experts on 2 ranks") && Catch::Contains("<td>409.60</td>"));
  CHECK_THAT(what_to_do(report)[1], Catch::Contains("strided takes least time on a batch's slowest rank, "
                                                    "contiguous 49.3 % more (slowest_rank_time_us)"));
  options.time.reset();
  const Report untimed = make_report(read, options);
  CHECK_THAT(report_text(untimed), !Catch::Contains("slowest rank"));
  const auto placements = report_document(untimed)["totals"]["ranks"]["placements"];
  CHECK(placements[0]["all"]["slowest_rank_time_p99_us"].is_null());
  CHECK_THAT(html_page(report_document(untimed)), !Catch::Contains("slowest rank,<br>"));
}

TEST_CASE("rank time: a comparison has time and ranks where both sides do") {
  MemoryTrace before = trace(), after(4, 1, {{0, {4, 0, 4, 0}}});
  ReportOptions options = timed(2, "");
  const auto a = report_document(make_report(before, options)),
             b = report_document(make_report(after, options));
  const auto totals = compare_reports(a, b)["totals"];
  const auto& policy = totals["policies"][0]["time_a_batch_us"];
  CHECK(policy["a"].get<double>() == Approx(3 * weights + 16 * row));
  CHECK(policy["b"].get<double>() == Approx(2 * (2 * weights + 8 * row)));
  const auto& contiguous = totals["ranks"]["placements"][0];
  CHECK(totals["ranks"]["ranks"] == 2);
  CHECK(contiguous["max_over_mean"]["a"] == 2);
  CHECK(contiguous["max_over_mean"]["b"] == 1);
  CHECK(contiguous["slowest_rank_time_a_batch_us"]["b"].get<double>() == Approx(2 * (weights + 4 * row)));
  CHECK_THAT(comparison_text(compare_reports(a, b)),
             Catch::Contains("A on unit, B on unit\n") &&
                 Catch::Contains("modelled us of the slowest of 2 ranks, experts\n") &&
                 Catch::Contains("contiguous                 409.6 -> 270.3  -139.3\n"));

  options.ranks = 4;
  options.time.reset();
  const auto other = report_document(make_report(after, options));
  const auto apart = compare_reports(a, other);
  CHECK(apart["totals"]["ranks"].is_null());
  CHECK(apart["totals"]["policies"][0]["time_a_batch_us"].is_null());
  CHECK_THAT(comparison_text(apart), !Catch::Contains("modelled") && !Catch::Contains("ranks"));
}
