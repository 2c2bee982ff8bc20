// An array inside a byte source, as the containers (npy, npz, safetensors, parsed JSON) describe it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "traces/byte_source.hpp"
#include "traces/number_format.hpp"

namespace dropless::traces {

/// `shape` numbers from byte `offset` of `bytes`, in C order or (fortran_order) with the first index fastest.
struct ArraySpec {
  std::shared_ptr<const ByteSource> bytes;
  std::int64_t offset = 0;
  NumberFormat number;
  std::vector<std::int64_t> shape;
  bool fortran_order = false;
};

/// The shape as text, "(4, 32, 512, 8)".
std::string shape_text(const std::vector<std::int64_t>& shape);

/// Numbers in the shape; throws FileError where the product, times `bytes` each, passes 2^63 - 1 or an extent
/// is negative.
std::int64_t checked_size(const std::vector<std::int64_t>& shape, std::int64_t bytes, const std::string& path,
                          const std::string& place);

}  // namespace dropless::traces
