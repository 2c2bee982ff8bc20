// Host side of TMA: tensor maps for the operands of the Hopper kernels. Maps are built for each call on the
// host and travel as kernel parameters, so no map is ever updated on the device.
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

/// A stack of `matrices` matrices [rows, columns], `matrix_stride` elements apart; box 64 columns by 64 rows.
CUtensorMap matrix_map(const void* data, std::int64_t columns, std::int64_t rows, std::int64_t matrices,
                       std::int64_t leading_dimension, std::int64_t matrix_stride, ElementType type);

}  // namespace dropless::sm90
