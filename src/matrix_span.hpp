// The memory that a matrix operand occupies: checked, so that a call can refuse a matrix that is not there
// and an output that overlaps an input.
#pragma once
#include <cstdint>
#include <string>

#include "argument_checks.hpp"
#include "dropless/integer_math.hpp"

namespace dropless {

/// `rows` rows of `row_bytes` bytes, `pitch_bytes` (at least row_bytes) apart.
struct MatrixSpan {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;
};

/// A matrix [rows, columns], row-major: its data must be there and hold its leading dimension.
inline MatrixSpan matrix_span(const std::string& name, const void* data, std::int64_t rows,
                              std::int64_t columns, std::int64_t leading_dimension,
                              std::int64_t element_bytes, const char* kind = device_memory) {
  require_leading_dimension(leading_dimension, columns, name + ".leading_dimension");
  if (rows == 0 || columns == 0) return {};
  require_memory(data, true, element_bytes, name + ".data", kind);
  const std::int64_t pitch_bytes = checked_product(leading_dimension, element_bytes, name.c_str());
  checked_product(rows, pitch_bytes, name.c_str());
  return {data, rows, columns * element_bytes, pitch_bytes};
}

/// The memory from the first byte of a matrix to the last of the one `repetitions - 1` strides further.
inline MatrixSpan repeated(const MatrixSpan& one, std::int64_t repetitions, std::int64_t stride_bytes,
                           const std::string& name) {
  const std::int64_t last = checked_product(repetitions - 1, stride_bytes, name.c_str());
  const std::int64_t bytes =
      checked_sum(last, (one.rows - 1) * one.pitch_bytes + one.row_bytes, name.c_str());
  return {one.data, 1, bytes, bytes};
}

/// Whether two matrices share a byte. Exact for equal pitches (column ranges of one buffer do not overlap);
/// for unequal ones, whether the memory between first and last byte does.
inline bool spans_overlap(const MatrixSpan& a, const MatrixSpan& b) {
  if (a.rows <= 0 || b.rows <= 0 || a.row_bytes <= 0 || b.row_bytes <= 0) return false;
  const auto begin = [](const MatrixSpan& span) { return reinterpret_cast<std::uintptr_t>(span.data); };
  const auto end = [&](const MatrixSpan& span) {
    return begin(span) + static_cast<std::uintptr_t>((span.rows - 1) * span.pitch_bytes + span.row_bytes);
  };
  if (begin(a) >= end(b) || begin(b) >= end(a)) return false;
  if (a.pitch_bytes != b.pitch_bytes || a.rows == 1 || b.rows == 1) return true;
  const auto distance = static_cast<std::int64_t>(begin(b) - begin(a)) % a.pitch_bytes;
  const std::int64_t offset = distance < 0 ? distance + a.pitch_bytes : distance;
  return offset < a.row_bytes || offset + b.row_bytes > a.pitch_bytes;
}

/// Throws Error where the output `out` overlaps the input `in`.
inline void check_no_overlap(const MatrixSpan& out, const std::string& out_name, const MatrixSpan& in,
                             const std::string& in_name) {
  if (spans_overlap(out, in)) throw Error(out_name, "in the memory of " + in_name, "memory of its own");
}

}  // namespace dropless
