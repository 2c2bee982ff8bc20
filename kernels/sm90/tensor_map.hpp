// Host side of TMA: tensor maps for the operands of the Hopper kernels. They are built on the host, for each
// call, and travel as kernel parameters; those of separate matrices are built once, when these are prepared,
// and lie in device memory. No map is ever updated on the device.
#pragma once
#include <cuda.h>

#include <cstdint>

#include "dropless/element_type.hpp"

namespace dropless::sm90 {

/// Whether TMA can address a matrix at `data` with rows `leading_dimension` elements apart: base and pitch
/// are multiples of 16 bytes and the pitch is below 2^34 bytes.
bool addressable(const void* data, std::int64_t leading_dimension, ElementType type);

/// The ragged map over row matrices (ragged_map.hpp). The box is 64 columns by `box_rows` rows, 128-byte
/// swizzled.
CUtensorMap ragged_map(const void* data, std::int64_t columns, std::int64_t leading_dimension,
                       ElementType type, std::uint32_t box_rows);

/// How much of what lies around a line that a load wants L2 fetches with it.
enum class L2Fetch { bytes_128, bytes_256 };

/// A stack of `matrices` matrices [rows, columns], `matrix_stride` elements apart; box 64 columns by 64 rows.
CUtensorMap matrix_map(const void* data, std::int64_t columns, std::int64_t rows, std::int64_t matrices,
                       std::int64_t leading_dimension, std::int64_t matrix_stride, ElementType type,
                       L2Fetch fetch = L2Fetch::bytes_256);

/// The same matrices in boxes of 256 columns by 64 rows, which are written 512 bytes of a row at a time: TMA
/// stores of such boxes reach 4.2 to 4.4 TB/s on an H200, of boxes 128 bytes wide 4.0 to 4.1. In shared
/// memory eight rows of 64 columns lie together, swizzled as ever, then the same rows' next 64 columns, and
/// after four of these the next eight rows. Coordinates: 0, 0, column / 64, row / 8, matrix. Columns past the
/// last one are not written, nor rows, but for that they must be counted in these units.
CUtensorMap wide_box_map(const void* data, std::int64_t columns, std::int64_t rows, std::int64_t matrices,
                         std::int64_t leading_dimension, std::int64_t matrix_stride, ElementType type);
constexpr bool fit_wide_boxes(std::int64_t columns, std::int64_t rows) {
  return columns % 64 == 0 && rows % 8 == 0;
}

/// The maps of a separate matrix, one after the other in device memory (prepare_separate_matrices): for
/// L2Fetch 256 and 128, and in wide boxes where it fits these.
constexpr int maps_of_a_matrix = 3, fetch_256_map = 0, fetch_128_map = 1, wide_map = 2;

}  // namespace dropless::sm90
