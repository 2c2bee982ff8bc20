// Random matrices on the device.
#include "matrix_fixtures.hpp"

#include <algorithm>
#include <cstring>

#include "dropless/float16.hpp"
#include "random_values.hpp"

namespace dropless::test {
namespace {

std::size_t bytes_of(ElementType type, std::int64_t elements) {
  return static_cast<std::size_t>(elements * element_bytes(type));
}

std::int64_t element_index(bool transposed, std::int64_t pitch, std::int64_t row, std::int64_t column) {
  return transposed ? column * pitch + row : row * pitch + column;
}

std::vector<std::int32_t> block_table(const BlockTopology& topology) {
  std::vector<std::int32_t> table(static_cast<std::size_t>(topology.block_rows * topology.block_columns), -1);
  for (std::size_t q = 0; q < topology.row_indices.size(); ++q)
    table[static_cast<std::size_t>(topology.row_indices[q] * topology.block_columns +
                                   topology.column_indices[q])] = static_cast<std::int32_t>(q);
  return table;
}

}  // namespace

std::vector<unsigned char> random_elements(ElementType type, std::int64_t count, std::uint32_t seed) {
  // Large matrices repeat a prime number of values: no two experts' matrices are alike, and it is quick.
  constexpr std::int64_t most_values = 1048583;
  const std::vector<float> values = random_values<float>(std::min(count, most_values), seed);
  std::vector<unsigned char> bytes(bytes_of(type, count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (type == ElementType::fp32) {
      std::memcpy(bytes.data() + 4 * i, &values[i], 4);
    } else {
      const std::uint16_t pattern = pattern_from_float(type, values[i]);
      std::memcpy(bytes.data() + 2 * i, &pattern, 2);
    }
  }
  const std::size_t period = bytes_of(type, static_cast<std::int64_t>(values.size()));
  for (std::size_t begin = period; begin < bytes.size(); begin += period)
    std::copy_n(bytes.begin(), std::min(period, bytes.size() - begin),
                bytes.begin() + static_cast<std::ptrdiff_t>(begin));
  return bytes;
}

double element_value(ElementType type, const std::vector<unsigned char>& bytes, std::int64_t index) {
  const unsigned char* const from = bytes.data() + bytes_of(type, index);
  if (type == ElementType::fp32) {
    float value;
    std::memcpy(&value, from, 4);
    return static_cast<double>(value);
  }
  std::uint16_t pattern;
  std::memcpy(&pattern, from, 2);
  return static_cast<double>(float_from_pattern(type, pattern));
}

DeviceDense::DeviceDense(ElementType type, std::int64_t rows, std::int64_t columns, bool transposed,
                         std::int64_t pad, Fill fill, std::uint32_t seed)
    : view_{nullptr,
            transposed ? columns : rows,
            transposed ? rows : columns,
            (transposed ? rows : columns) + pad,
            type,
            transposed},
      buffer_(bytes_of(type, view_.rows * view_.leading_dimension)) {
  view_.data = buffer_.data();
  if (fill == Fill::poison) return;
  const std::vector<unsigned char> values = random_elements(type, view_.rows * view_.columns, seed);
  std::vector<unsigned char> stored(buffer_.size(), 0xff);
  const auto row_bytes = static_cast<std::ptrdiff_t>(bytes_of(type, view_.columns)),
             pitch_bytes = static_cast<std::ptrdiff_t>(bytes_of(type, view_.leading_dimension));
  for (std::int64_t row = 0; row < view_.rows; ++row)
    std::copy_n(values.begin() + row * row_bytes, row_bytes, stored.begin() + row * pitch_bytes);
  buffer_.upload(stored);
}

ReferenceOperand DeviceDense::reference() const {
  ReferenceOperand operand{view_.data, view_.type, view_.leading_dimension, 1};
  if (view_.transposed) std::swap(operand.row_stride, operand.column_stride);
  return operand;
}

double DeviceDense::value(std::int64_t row, std::int64_t column) const {
  return element_value(view_.type, host_,
                       element_index(view_.transposed, view_.leading_dimension, row, column));
}

bool DeviceDense::surroundings_intact() const {
  const std::size_t row_bytes = bytes_of(view_.type, view_.columns),
                    pitch_bytes = bytes_of(view_.type, view_.leading_dimension);
  for (std::size_t i = 0; i < host_.size(); ++i)
    if (i % pitch_bytes >= row_bytes && host_[i] != 0xff) return false;
  return buffer_.guards_intact();
}

DeviceBlockSparse::DeviceBlockSparse(ElementType type, std::int64_t block, std::int64_t rows,
                                     std::int64_t columns, bool transposed, double sparsity, Fill fill,
                                     std::uint32_t seed)
    : DeviceBlockSparse(type,
                        random_pattern(block, (transposed ? columns : rows) / block,
                                       (transposed ? rows : columns) / block, sparsity, seed),
                        transposed, fill, seed + 1) {}

DeviceBlockSparse::DeviceBlockSparse(ElementType type, BlockTopology topology, bool transposed, Fill fill,
                                     std::uint32_t seed)
    : topology_(std::move(topology)),
      table_(block_table(topology_)),
      offsets_(topology_.offsets),
      row_indices_(topology_.row_indices),
      column_indices_(topology_.column_indices),
      offsets_transposed_(topology_.offsets_transposed),
      column_indices_transposed_(topology_.column_indices_transposed),
      block_offsets_transposed_(topology_.block_offsets_transposed),
      device_table_(table_),
      values_(bytes_of(type, topology_.nonzero_blocks * topology_.block * topology_.block)),
      view_{type,
            topology_.block,
            topology_.block_rows * topology_.block,
            topology_.block_columns * topology_.block,
            topology_.nonzero_blocks,
            offsets_.data(),
            row_indices_.data(),
            column_indices_.data(),
            offsets_transposed_.data(),
            column_indices_transposed_.data(),
            block_offsets_transposed_.data(),
            values_.data(),
            transposed} {
  if (fill == Fill::random)
    values_.upload(random_elements(type, topology_.nonzero_blocks * topology_.block * topology_.block, seed));
}

ReferenceOperand DeviceBlockSparse::reference() const {
  ReferenceOperand operand{view_.values,
                           view_.type,
                           view_.block,
                           1,
                           device_table_.data(),
                           view_.block,
                           topology_.block_columns,
                           1};
  if (view_.transposed) {
    std::swap(operand.row_stride, operand.column_stride);
    std::swap(operand.table_row_stride, operand.table_column_stride);
  }
  return operand;
}

std::int64_t DeviceBlockSparse::block_of(std::int64_t row, std::int64_t column) const {
  return table_[static_cast<std::size_t>(
      element_index(view_.transposed, topology_.block_columns, row / view_.block, column / view_.block))];
}

double DeviceBlockSparse::value(std::int64_t row, std::int64_t column) const {
  const std::int64_t q = block_of(row, column), block = view_.block;
  if (q < 0) return 0.0;
  return element_value(
      view_.type, host_,
      q * block * block + element_index(view_.transposed, block, row % block, column % block));
}

}  // namespace dropless::test
