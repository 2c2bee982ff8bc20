// The number types arrays are stored in, and how they become the integers that are counted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace dropless::traces {

/// One stored number: an integer of 1, 2, 4 or 8 bytes or an IEEE float of 2, 4 or 8.
struct NumberFormat {
  enum class Kind { signed_integer, unsigned_integer, floating };
  Kind kind = Kind::unsigned_integer;
  int bytes = 1;
  bool swapped = false;  ///< stored in the byte order that this machine does not have

  bool is_byte() const { return kind == Kind::unsigned_integer && bytes == 1; }
};

/// A table of numbers within a buffer; strides are in numbers, not bytes.
struct NumberTable {
  const std::byte* first = nullptr;
  std::int64_t rows = 0;
  std::int64_t row_stride = 0;
  std::int64_t columns = 0;
  std::int64_t column_stride = 0;
};

/// Copies the table to `out`, row-major and dense, as int64. Returns -1, or the index in `out` of the first
/// number that is no integer below 2^63 (NaN, a fraction, too large).
std::int64_t read_integers(const NumberFormat& format, const NumberTable& table, std::int64_t* out);

/// The same for a format with is_byte(), which every value fits.
void read_bytes(const NumberTable& table, std::uint8_t* out);

/// Whether the table is bytes that lie one after another, row-major.
inline bool is_dense_bytes(const NumberFormat& format, const NumberTable& table) {
  return format.is_byte() && table.column_stride == 1 && table.row_stride == table.columns;
}

/// The number at `bytes` as text, for messages.
std::string number_text(const NumberFormat& format, const std::byte* bytes);

}  // namespace dropless::traces
