// The measures that a report accumulates, against loops written from their definitions.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "catch.hpp"
#include "dropless/report.hpp"
#include "memory_trace.hpp"
#include "plain_report.hpp"
#include "report/fixed_point_sum.hpp"
#include "report/fraction_distribution.hpp"
#include "report/histograms.hpp"
#include "report/imbalance.hpp"

using namespace dropless;

TEST_CASE("report metrics: imbalance of a batch equals its definitions") {
  std::mt19937_64 random(3);
  GiniCounter gini;
  for (const std::int64_t scale : {2, 60, 4095, 100'000, 1'000'000'000}) {
    for (int round = 0; round < 50; ++round) {
      std::vector<std::int64_t> rows(1 + random() % 130);
      for (std::int64_t& count : rows)
        count = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(scale));
      rows[0] += 1;
      RowHistogram histogram;
      const BatchRows batch(rows, 0, 0);
      const Imbalance measures = imbalance(batch, gini(batch, 1, histogram));
      const double experts = static_cast<double>(rows.size());
      const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / experts;
      CHECK(measures.max_over_mean ==
            Approx(static_cast<double>(*std::max_element(rows.begin(), rows.end())) / mean));
      CHECK(measures.coefficient_of_variation == Approx(plain_variation(rows)).margin(1e-6));
      CHECK(measures.gini == Approx(plain_gini(rows)).margin(1e-9));
      CHECK(histogram.total() == rows.size());
    }
  }
}

TEST_CASE("report metrics: a sum in fixed point does not depend on the order of its terms") {
  std::mt19937_64 random(5);
  std::vector<double> terms(5000);
  for (double& term : terms) term = static_cast<double>(random() % 1'000'000'007) / 977.0;
  FixedPointSum forward, first, second;
  for (const double term : terms) forward.add(term);
  for (std::size_t i = terms.size(); i-- > 0;) (i % 3 == 0 ? first : second).add(terms[i]);
  first.add(second);
  CHECK(first.value() == forward.value());
  CHECK(forward.value() == Approx(std::accumulate(terms.begin(), terms.end(), 0.0)));
  FixedPointSum large;
  for (int i = 0; i < 100; ++i) large.add(2147483647.0);
  CHECK(large.value() == 214748364700.0);
}

TEST_CASE("report metrics: a mean is never above the largest term, and is the term where all are alike") {
  CHECK(FixedPointSum().mean(0) == 0);
  std::mt19937_64 random(7);
  for (int round = 0; round < 200; ++round) {
    const double term = static_cast<double>(random() % 100'000 + 1) / static_cast<double>(random() % 999 + 1);
    const auto times = static_cast<std::int64_t>(random() % 1000 + 1);
    CAPTURE(term, times);
    FixedPointSum alike;
    alike.add(term, times);
    CHECK(alike.mean(times) <= term);
    if (term >= 0.125) CHECK(alike.mean(times) == term);
    alike.add(term / 2);
    CHECK(alike.mean(times + 1) < term);
  }
}

TEST_CASE("report metrics: experts and ranks that are as uneven in every batch have that mean and maximum") {
  std::vector<MemoryBatch> batches(7, {0, {54, 1, 1, 1, 1, 2, 5, 10, 15, 10}});
  MemoryTrace trace(10, 1, batches);
  ReportOptions options;
  options.ranks = 3;
  options.sms = 3;
  const RoutingFigures totals = make_report(trace, options).totals;
  CHECK(totals.max_over_mean == 5.4);
  CHECK(totals.max_over_mean_max == 5.4);
  CHECK(totals.tiles->longest_expert_share == totals.tiles->longest_expert_share_max);
  CHECK(totals.ranks->max_over_mean == totals.ranks->max_over_mean_max);
  for (const PlacementFigures& placement : totals.ranks->placements)
    CHECK(placement.all.max_over_mean == placement.all.max);
}

TEST_CASE("report metrics: percentiles interpolate exactly, and within a bin once values are counted") {
  std::mt19937_64 random(9);
  for (const std::size_t batches : {1, 2, 3, 100, 1001}) {
    FractionDistribution exact(2), halves(2), rest(2);
    std::vector<double> values;
    for (std::size_t i = 0; i < batches; ++i) {
      const double fractions[] = {static_cast<double>(random() % 1000) / 999, 0.25};
      values.push_back(fractions[0]);
      exact.add(fractions);
      (i % 2 == 0 ? halves : rest).add(fractions);
    }
    halves.use_bins();
    rest.use_bins();
    halves.add(rest);
    for (const double share : {0.0, 0.5, 0.95, 0.99, 1.0}) {
      CHECK(exact.percentile(0, share) == Approx(plain_percentile(values, share)).margin(1e-12));
      CHECK(halves.percentile(0, share) == Approx(plain_percentile(values, share)).margin(0.5001e-4));
      CHECK(halves.percentile(1, share) == 0.25);
    }
    CHECK(exact.largest(0) == *std::max_element(values.begin(), values.end()));
    CHECK(halves.largest(0) == exact.largest(0));
  }
  CHECK(FractionDistribution(1).percentile(0, 0.5) == 0);
}

TEST_CASE("report metrics: quantiles of rows are exact below 4096 and within 1/64 above") {
  std::mt19937_64 random(15);
  for (const std::int64_t scale :
       {std::int64_t{10}, std::int64_t{4000}, std::int64_t{1'000'000}, std::int64_t{1'000'000'000'000}}) {
    RowHistogram histogram;
    std::vector<std::int64_t> rows(999);
    for (std::int64_t& count : rows) {
      count = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(scale));
      histogram.add(count);
    }
    std::sort(rows.begin(), rows.end());
    for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      const auto rank = static_cast<std::size_t>(std::max(1.0, std::ceil(share * 999)));
      const std::int64_t exact = rows[rank - 1], found = histogram.quantile(share);
      CHECK(found <= exact);
      CHECK(exact - found <= (exact < 4096 ? 0 : exact / 64));
    }
    const std::vector<HistogramBin> bins = bins_by_rows(histogram);
    CHECK(bins.size() <= 24);
    std::int64_t batches = 0;
    for (const HistogramBin& bin : bins) {
      batches += bin.batches;
      std::int64_t counted = 0;
      for (const std::int64_t count : rows)
        counted += static_cast<double>(count) >= bin.least && static_cast<double>(count) < bin.below;
      CHECK(bin.batches == counted);
    }
    CHECK(batches == 999);
  }
}
