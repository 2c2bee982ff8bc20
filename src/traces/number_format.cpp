// One conversion loop for every stored type and byte order.
#include "traces/number_format.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "dropless/float16.hpp"

namespace dropless::traces {
namespace {

static_assert(std::endian::native == std::endian::little,
              "byte orders are told apart for little-endian hosts");

/// IEEE half precision, as stored.
struct Half {
  std::uint16_t bits;
};

template <class T>
T load(const std::byte* bytes, bool swapped) {
  std::byte copy[sizeof(T)];
  std::memcpy(copy, bytes, sizeof(T));
  if (swapped) std::reverse(copy, copy + sizeof(T));
  return std::bit_cast<T>(copy);
}

/// The number as int64; false where it is none.
template <class T>
bool to_integer(T number, std::int64_t& value) {
  if constexpr (std::is_same_v<T, Half>) {
    return to_integer(float_from_fp16(number.bits), value);
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!(std::abs(number) < T(9.2e18)) || number != std::trunc(number)) return false;
    value = static_cast<std::int64_t>(number);
    return true;
  } else {
    value = static_cast<std::int64_t>(number);
    return std::is_signed_v<T> || value >= 0;
  }
}

template <class T, bool swapped>
std::int64_t read_as(const NumberTable& table, std::int64_t* out) {
  std::int64_t at = 0;
  for (std::int64_t row = 0; row < table.rows; ++row)
    for (std::int64_t column = 0; column < table.columns; ++column, ++at) {
      const std::int64_t index = row * table.row_stride + column * table.column_stride;
      if (!to_integer(load<T>(table.first + index * std::int64_t{sizeof(T)}, swapped), out[at])) return at;
    }
  return -1;
}

/// Calls `use(T{})` with the C++ type of the format.
template <class Use>
auto with_type(const NumberFormat& format, Use use) {
  using Kind = NumberFormat::Kind;
  switch (format.kind) {
    case Kind::signed_integer:
      if (format.bytes == 1) return use(std::int8_t{});
      if (format.bytes == 2) return use(std::int16_t{});
      if (format.bytes == 4) return use(std::int32_t{});
      return use(std::int64_t{});
    case Kind::unsigned_integer:
      if (format.bytes == 1) return use(std::uint8_t{});
      if (format.bytes == 2) return use(std::uint16_t{});
      if (format.bytes == 4) return use(std::uint32_t{});
      return use(std::uint64_t{});
    case Kind::floating:
      if (format.bytes == 2) return use(Half{});
      if (format.bytes == 4) return use(float{});
      break;
  }
  return use(double{});
}

}  // namespace

std::int64_t read_integers(const NumberFormat& format, const NumberTable& table, std::int64_t* out) {
  return with_type(format, [&](auto type) {
    using T = decltype(type);
    return format.swapped ? read_as<T, true>(table, out) : read_as<T, false>(table, out);
  });
}

void read_bytes(const NumberTable& table, std::uint8_t* out) {
  for (std::int64_t row = 0; row < table.rows; ++row)
    for (std::int64_t column = 0; column < table.columns; ++column)
      *out++ = static_cast<std::uint8_t>(table.first[row * table.row_stride + column * table.column_stride]);
}

std::string number_text(const NumberFormat& format, const std::byte* bytes) {
  return with_type(format, [&](auto type) {
    using T = decltype(type);
    const T number = load<T>(bytes, format.swapped);
    if constexpr (std::is_same_v<T, Half>)
      return fmt::format("{}", float_from_fp16(number.bits));
    else
      return fmt::format("{}", number);
  });
}

}  // namespace dropless::traces
