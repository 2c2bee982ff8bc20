// The report on placements: figures of both halves by hand, the same for any number of workers, and what it
// refuses.
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "temporary_folder.hpp"

using namespace dropless;
using List = std::vector<std::int64_t>;

namespace {

ReportOptions ranks(std::int64_t count, const std::string& placement, std::int64_t replicas = 0) {
  ReportOptions options;
  options.ranks = count;
  options.placement = placement;
  options.replicas = replicas;
  options.workers = 1;
  return options;
}

MemoryTrace halves() {
  return MemoryTrace(
      4, 1, {{0, {4, 4, 0, 0}}, {0, {4, 4, 0, 0}}, {0, {6, 2, 0, 0}}, {0, {0, 0, 0, 0}}, {0, {0, 0, 0, 8}}});
}

MemoryTrace random_trace(std::size_t batches, std::int64_t experts) {
  std::mt19937 random(3);
  std::vector<MemoryBatch> held;
  for (std::size_t i = 0; i < batches; ++i) {
    held.emplace_back();
    held.back().layer = i < batches / 3 ? 0 : 1;
    for (std::int64_t e = 0; e < experts; ++e)
      held.back().rows.push_back(static_cast<std::int64_t>(random() % (e == 2 ? 40 : 9)));
  }
  return MemoryTrace(experts, 1, std::move(held));
}

std::string refusal(const ReportOptions& options) {
  MemoryTrace trace = halves();
  try {
    make_report(trace, options);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("report placements: balanced is fitted on the first half and scored on both") {
  MemoryTrace trace = halves();
  const Report report = make_report(trace, ranks(2, "balanced"));
  // 8 rows each of experts 0 and 1 in the first two of five batches; then one idle expert each.
  REQUIRE(report.placement);
  CHECK(report.placement->physical_to_logical == std::vector<List>{{0, 2, 1, 3}});
  CHECK(report.placement->ranks == 2);
  CHECK(report.placement->layers == List{0});
  CHECK(report.layers_without_second_half == 0);
  const auto& placements = report.totals.ranks->placements;
  REQUIRE(placements.size() == 3);
  CHECK(placements[0].placement == "contiguous");
  CHECK(placements[0].all.max_over_mean == 2);
  CHECK(placements[1].placement == "strided");
  const PlacementFigures& balanced = placements[2];
  CHECK(balanced.placement == "balanced");
  CHECK(balanced.replicas == 0);
  CHECK_FALSE(balanced.extra_weight_bytes);
  REQUIRE(balanced.first_half);
  CHECK(balanced.first_half->batches == 2);
  CHECK(balanced.first_half->max_over_mean == 1);
  CHECK(balanced.first_half->max == 1);
  CHECK(balanced.first_half->fullest_rank_rows == 8);
  // 6 of 8 rows on a rank, no rows at all, 8 of 8 rows.
  REQUIRE(balanced.second_half);
  CHECK(balanced.second_half->batches == 2);
  CHECK(balanced.second_half->max_over_mean == 1.75);
  CHECK(balanced.second_half->p50 == Approx(1.75));
  CHECK(balanced.second_half->p95 == Approx(1.975));
  CHECK(balanced.second_half->p99 == Approx(1.995));
  CHECK(balanced.second_half->max == 2);
  CHECK(balanced.second_half->fullest_rank_rows == 14);
  CHECK(balanced.all.batches == 4);
  CHECK(balanced.all.max_over_mean == 1.375);
  CHECK(balanced.all.fullest_rank_rows == 22);
}

TEST_CASE("report placements: the warm-up counts for nothing") {
  MemoryTrace plain = halves();
  MemoryTrace warm(4, 1,
                   {{0, {0, 0, 256, 0}, 0, 0, 256, {0, 0, 256, 0}},
                    {0, {4, 4, 9, 0}, 0, 0, 9, {0, 0, 9, 0}},
                    {0, {4, 4, 0, 0}},
                    {0, {6, 2, 0, 0}},
                    {0, {0, 0, 0, 0}},
                    {0, {0, 0, 0, 8}}});
  const Report expected = make_report(plain, ranks(2, "balanced")),
               report = make_report(warm, ranks(2, "balanced"));
  CHECK(report.placement->physical_to_logical == expected.placement->physical_to_logical);
  for (std::size_t i = 0; i < 3; ++i) {
    const PlacementFigures& found = report.totals.ranks->placements[i];
    CHECK(found.first_half->batches == 2);
    CHECK(found.first_half->fullest_rank_rows ==
          expected.totals.ranks->placements[i].first_half->fullest_rank_rows);
    CHECK(found.second_half->max_over_mean ==
          expected.totals.ranks->placements[i].second_half->max_over_mean);
  }
  CHECK(report.totals_without_warmup->ranks->max_over_mean ==
        Approx(report.totals.ranks->placements[0].all.max_over_mean));
}

TEST_CASE("report placements: contiguous is what the ranks' own figures say") {
  MemoryTrace trace = random_trace(31, 6);
  for (const std::string placement : {"", "contiguous", "strided"}) {
    const Report report = make_report(trace, ranks(4, placement));
    const RankFigures& figures = *report.totals.ranks;
    REQUIRE(figures.placements.size() == 2);
    CHECK(figures.placements[0].all.max_over_mean == Approx(figures.max_over_mean));
    CHECK(figures.placements[0].all.max == Approx(figures.max_over_mean_max));
    CHECK_FALSE(figures.placements[0].first_half);
    CHECK(report.placement->physical_to_logical[1] ==
          (placement == "strided" ? List{0, 4, 1, 5, 2, 3} : List{0, 1, 2, 3, 4, 5}));
  }
}

TEST_CASE("report placements: the same for any number of workers, and read back from a file") {
  // Past 100000 batches percentiles come from bins.
  for (const std::size_t batches : {std::size_t{50}, std::size_t{100'001}}) {
    MemoryTrace trace = random_trace(batches, 6);
    ReportOptions options = ranks(3, "balanced", 2);
    const Report one = make_report(trace, options);
    options.workers = 5;
    const std::string expected = report_json(one);
    CHECK(report_json(make_report(trace, options)) == expected);

    std::vector<List> rows_per_expert;
    for (const LayerFigures& layer : one.layers) rows_per_expert.push_back(layer.figures.rows_per_expert);
    const TemporaryFolder folder;
    options.replicas = 0;
    options.placement = folder.write("placement.json", placement_json(*one.placement, rows_per_expert));
    const Report again = make_report(trace, options);
    const PlacementFigures& fitted = one.totals.ranks->placements[2];
    const PlacementFigures& read = again.totals.ranks->placements[2];
    CHECK(read.placement == "file");
    CHECK(read.replicas == 2);
    CHECK(read.all.max_over_mean == fitted.all.max_over_mean);
    CHECK(read.all.p95 == fitted.all.p95);
    CHECK(read.all.fullest_rank_rows == fitted.all.fullest_rank_rows);
    CHECK(again.placement->physical_to_logical == one.placement->physical_to_logical);
  }
}

TEST_CASE("report placements: replicas' weights, dense layers and layers of one batch") {
  MemoryTrace trace(
      4, 1, {{0, {9, 1, 1, 1}}, {1, {1, 1, 1, 9}}, {1, {1, 1, 1, 9}}, {7, {3, 3, 3, 3}}, {7, {3, 3, 3, 3}}});
  trace.set_dense(7);
  ReportOptions options = ranks(2, "balanced", 2);
  options.model = find_model_shape("olmoe_like");
  const Report report = make_report(trace, options);
  CHECK(report.layers_without_second_half == 1);
  const PlacementFigures& balanced = report.totals.ranks->placements[2];
  CHECK(balanced.replicas == 2);
  // Two replicas in each of two layers; an expert has 3 matrices of 512 x 256 elements of 2 bytes.
  CHECK(*balanced.extra_weight_bytes == 2.0 * 2 * 3 * 512 * 256 * 2);
  CHECK(balanced.all.batches == 3);
  CHECK(balanced.first_half->batches == 2);
  CHECK(report.layers[0].figures.ranks->placements[2].second_half->batches == 0);

  const auto document = nlohmann::json::parse(report_json(report));
  const auto& entry = document["totals"]["ranks"]["placements"][2];
  for (const char* key : {"placement", "replicas", "extra_weight_bytes", "all", "first_half", "second_half"})
    CHECK(entry.contains(key));
  for (const char* key : {"batches", "max_over_mean", "max_over_mean_p50", "max_over_mean_p95",
                          "max_over_mean_p99", "max_over_mean_max", "fullest_rank_rows"})
    CHECK(entry["second_half"].contains(key));
  const std::string text = report_text(report);
  CHECK(text.find("1 layer with fewer than two batches") != std::string::npos);
  CHECK(text.find("balanced holds 2 replicas a layer: 3.1 MB more of expert weights") != std::string::npos);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

TEST_CASE("report placements: refusals") {
  CHECK(refusal(ranks(0, "strided")) == "ranks is 0; expected 1 or more with a placement or replicas");
  CHECK(refusal(ranks(2, "strided", 1)) == "replicas is 1; expected 0 unless the placement is balanced");
  CHECK(refusal(ranks(2, "balanced", 5)) == "replicas is 5; expected 0 to a copy on every rank, 4");
  CHECK(refusal(ranks(2, "balance")) ==
        "balance: cannot be opened (placements by name are contiguous, strided, balanced)");
  const TemporaryFolder folder;
  const std::string path =
      folder.write("placement.json", R"({"physical_to_logical_map": [[0, 1, 2, 3]], "ranks": 4})");
  CHECK(refusal(ranks(2, path)) == path + ": ranks: is 4, but the report has 2 ranks");
  folder.write("placement.json", R"({"physical_to_logical_map": [[0, 1, 2, 3]], "layers": [1]})");
  CHECK(refusal(ranks(2, path)) == path + ": layers: has no layer 0, which the trace has");
}
