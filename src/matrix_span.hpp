// The memory that a matrix operand occupies, so that a call can refuse an output that overlaps an input.
#pragma once
#include <cstdint>
#include <string>

#include "dropless/error.hpp"

namespace dropless {

/// `rows` rows of `row_bytes` bytes, `pitch_bytes` (at least row_bytes) apart.
struct MatrixSpan {
  const void* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_bytes = 0;
  std::int64_t pitch_bytes = 0;
};

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
