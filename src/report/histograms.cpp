// A chart's bins are the histogram's own, joined: all bins of a doubling have one width, so bars stay
// comparable.
#include "report/histograms.hpp"

#include <bit>

namespace dropless {
namespace {

constexpr std::size_t most_bins = 24;

/// Bin borders from at most `least` to past `most`, `bins_per_doubling` (a power of two up to 64) to every
/// doubling.
std::vector<std::int64_t> borders(std::int64_t least, std::int64_t most, std::int64_t bins_per_doubling) {
  const auto width_at = [&](std::int64_t rows) {
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(rows))) / bins_per_doubling);
  };
  std::vector<std::int64_t> result{least - least % width_at(least)};
  while (result.back() <= most && result.size() <= most_bins + 1)
    result.push_back(result.back() + width_at(result.back()));
  return result;
}

}  // namespace

RowQuantiles row_quantiles(const RowHistogram& histogram, std::int64_t rows) {
  RowQuantiles out;
  const std::uint64_t entries = histogram.total();
  if (entries == 0) return out;
  out.mean = static_cast<double>(rows) / static_cast<double>(entries);
  out.least = histogram.quantile(0);
  out.p10 = histogram.quantile(0.10);
  out.p25 = histogram.quantile(0.25);
  out.p50 = histogram.quantile(0.50);
  out.p75 = histogram.quantile(0.75);
  out.p90 = histogram.quantile(0.90);
  out.p99 = histogram.quantile(0.99);
  out.most = histogram.quantile(1);
  return out;
}

std::vector<HistogramBin> bins_by_rows(const RowHistogram& histogram) {
  if (histogram.total() == 0) return {};
  const std::int64_t least = histogram.quantile(0), most = histogram.quantile(1);
  std::int64_t bins_per_doubling = 64;
  std::vector<std::int64_t> edges = borders(least, most, bins_per_doubling);
  while (edges.size() > most_bins + 1 && bins_per_doubling > 1)
    edges = borders(least, most, bins_per_doubling /= 2);
  std::vector<HistogramBin> bins;
  for (std::size_t i = 0; i + 1 < edges.size(); ++i)
    bins.push_back({static_cast<double>(edges[i]), static_cast<double>(edges[i + 1]),
                    static_cast<std::int64_t>(histogram.count_between(edges[i], edges[i + 1]))});
  return bins;
}

std::vector<HistogramBin> bins_by_padding(const std::array<std::int64_t, 20>& batches) {
  std::vector<HistogramBin> bins;
  for (std::size_t i = 0; i < batches.size(); ++i)
    bins.push_back({static_cast<double>(i) / 20, static_cast<double>(i + 1) / 20, batches[i]});
  return bins;
}

}  // namespace dropless
