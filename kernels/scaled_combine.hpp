// combine with one factor on every weight: the output_scale of an expert layer.
#pragma once
#include "dropless/permutation.hpp"

namespace dropless {

/// combine, each weight (1 where there are none) times `factor`.
void combine_scaled(const RowOrder& order, const RowsView& rows, const float* weights, float factor,
                    const MutableRowsView& out, std::int64_t columns, bool accumulate, Stream stream);

}  // namespace dropless
