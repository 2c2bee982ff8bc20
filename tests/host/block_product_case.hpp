// One block-sparse product on the CPU, for the tests of what its kernels walk: operands of random floats, and
// the check of an output against the reference.
#pragma once
#include <cmath>

#include "block_sparse_plan.hpp"
#include "catch.hpp"
#include "dropless/block_sparse_reference.hpp"
#include "random_values.hpp"

namespace dropless::test {

enum class Verb { sdd, dsd, dds };

struct DenseStorage {
  std::vector<float> memory;
  std::int64_t rows, columns, pitch;
  bool transposed;

  DenseStorage(std::int64_t read_rows, std::int64_t read_columns, bool is_transposed, std::uint32_t seed)
      : rows(is_transposed ? read_columns : read_rows),
        columns(is_transposed ? read_rows : read_columns),
        pitch(columns + 1),
        transposed(is_transposed) {
    memory = random_values<float>(rows * pitch, seed);
  }
  DenseMatrix view() { return {memory.data(), rows, columns, pitch, ElementType::fp32, transposed}; }
  HostDenseMatrix<float> host() { return {memory.data(), rows, columns, pitch, transposed}; }
  HostDenseMatrix<const float> host_input() const {
    return {memory.data(), rows, columns, pitch, transposed};
  }
};

/// Lets `walk(product, covered)` compute a product of random operands and count how often it writes each
/// element of the output, and requires the reference's values and one writing of each. `topology`: of the
/// sparse matrix as it is stored; `dense`: the product's extent that the sparse matrix has not.
template <class Walk>
void check_block_product(Verb verb, const BlockTopology& topology, int transposes, std::int64_t dense,
                         const Walk& walk) {
  const bool a_t = transposes & 1, b_t = transposes & 2, out_t = transposes & 4;
  const bool sparse_t = verb == Verb::sdd ? out_t : verb == Verb::dsd ? a_t : b_t;
  const std::int64_t block = topology.block;
  const std::int64_t rows = (sparse_t ? topology.block_columns : topology.block_rows) * block,
                     columns = (sparse_t ? topology.block_rows : topology.block_columns) * block;
  const std::int64_t m = verb == Verb::dds ? dense : rows, n = verb == Verb::dsd ? dense : columns,
                     k = verb == Verb::sdd   ? dense
                         : verb == Verb::dsd ? columns
                                             : rows;
  std::vector<float> values = random_values<float>(topology.nonzero_blocks * block * block, 6);
  BlockSparseMatrix sparse{ElementType::fp32,
                           block,
                           topology.block_rows * block,
                           topology.block_columns * block,
                           topology.nonzero_blocks,
                           topology.offsets.data(),
                           topology.row_indices.data(),
                           topology.column_indices.data(),
                           topology.offsets_transposed.data(),
                           topology.column_indices_transposed.data(),
                           topology.block_offsets_transposed.data(),
                           values.data(),
                           sparse_t};
  DenseStorage a(m, k, a_t, 1), b(k, n, b_t, 2), out(m, n, out_t, 3), expected = out;
  std::vector<float> expected_values = values;
  std::vector<int> covered(verb == Verb::sdd ? values.size() : out.memory.size(), 0);
  const HostBlockSparseMatrix<const float> host_sparse{&topology, values.data(), sparse_t};
  switch (verb) {
    case Verb::sdd:
      walk(plan_sdd(a.view(), b.view(), sparse), covered);
      reference_sdd(a.host_input(), b.host_input(), {&topology, expected_values.data(), sparse_t});
      break;
    case Verb::dsd:
      walk(plan_dsd(sparse, b.view(), out.view()), covered);
      reference_dsd(host_sparse, b.host_input(), expected.host());
      break;
    case Verb::dds:
      walk(plan_dds(a.view(), sparse, out.view()), covered);
      reference_dds(a.host_input(), host_sparse, expected.host());
      break;
  }
  const std::vector<float>& actual = verb == Verb::sdd ? values : out.memory;
  const std::vector<float>& wanted = verb == Verb::sdd ? expected_values : expected.memory;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const bool padding = verb != Verb::sdd && static_cast<std::int64_t>(i) % out.pitch >= out.columns;
    REQUIRE(covered[i] == (padding ? 0 : 1));
    REQUIRE(std::abs(actual[i] - wanted[i]) < 1e-4F);
  }
}

}  // namespace dropless::test
