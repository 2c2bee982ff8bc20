// Quantiles and bar charts from a histogram of rows.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "dropless/report.hpp"
#include "report/row_histogram.hpp"

namespace dropless {

/// `rows` in all over the histogram's entries.
RowQuantiles row_quantiles(const RowHistogram& histogram, std::int64_t rows);

/// At most 24 adjacent bins from the least to the most rows of a batch, as fine as that allows.
std::vector<HistogramBin> bins_by_rows(const RowHistogram& histogram);

/// 20 bins of 0.05.
std::vector<HistogramBin> bins_by_padding(const std::array<std::int64_t, 20>& batches);

}  // namespace dropless
