// The CPU block-sparse products against dense triple loops for every transpose and random patterns, and the
// packed expert products against the blocked ones on the same routing.
#include <algorithm>
#include <cmath>

#include "catch.hpp"
#include "dropless/integer_math.hpp"
#include "dropless/reference.hpp"
#include "dropless/row_layout.hpp"
#include "random_values.hpp"

using namespace dropless;
using dropless::test::random_pattern;
using dropless::test::random_values;

namespace {

/// A dense matrix [rows, columns] kept row-major without a pitch.
struct Dense {
  std::int64_t rows, columns;
  std::vector<double> values;
  double at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

Dense random_dense(std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  return {rows, columns, random_values<double>(rows * columns, seed)};
}

Dense multiplied(const Dense& a, const Dense& b) {
  Dense c{a.rows, b.columns, std::vector<double>(static_cast<std::size_t>(a.rows * b.columns), 0.0)};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j)
        c.values[static_cast<std::size_t>(i * b.columns + j)] += a.at(i, k) * b.at(k, j);
  return c;
}

Dense transpose_of(const Dense& a) {
  Dense t{a.columns, a.rows, std::vector<double>(a.values.size())};
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j)
      t.values[static_cast<std::size_t>(j * a.rows + i)] = a.at(i, j);
  return t;
}

/// `matrix` as somebody would store it who reads it with `transposed`: pitch 3 past the columns, poisoned.
struct Stored {
  std::vector<double> memory;
  std::int64_t rows, columns, pitch;
  bool transposed;
  HostDenseMatrix<double> writable() { return {memory.data(), rows, columns, pitch, transposed}; }
  HostDenseMatrix<const double> view() const { return {memory.data(), rows, columns, pitch, transposed}; }
  Dense read() const {
    Dense stored{rows, columns, {}};
    for (std::int64_t i = 0; i < rows; ++i)
      stored.values.insert(stored.values.end(), memory.begin() + i * pitch,
                           memory.begin() + i * pitch + columns);
    return transposed ? transpose_of(stored) : stored;
  }
};

Stored stored(const Dense& matrix, bool transposed) {
  const Dense kept = transposed ? transpose_of(matrix) : matrix;
  Stored result{{}, kept.rows, kept.columns, kept.columns + 3, transposed};
  result.memory.assign(static_cast<std::size_t>(result.rows * result.pitch), std::nan(""));
  for (std::int64_t i = 0; i < kept.rows; ++i)
    for (std::int64_t j = 0; j < kept.columns; ++j)
      result.memory[static_cast<std::size_t>(i * result.pitch + j)] = kept.at(i, j);
  return result;
}
Stored unwritten(std::int64_t rows, std::int64_t columns, bool transposed) {
  return stored({rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns), std::nan(""))},
                transposed);
}

/// A block-sparse matrix of random values, and the same written out by its definition.
struct Sparse {
  BlockTopology topology;
  std::vector<double> values;
  Dense dense;  // not transposed
};

Sparse random_sparse(std::int64_t block, std::int64_t rows, std::int64_t columns, double sparsity,
                     std::uint32_t seed) {
  Sparse sparse{random_pattern(block, rows / block, columns / block, sparsity, seed), {}, {}};
  sparse.values = random_values<double>(sparse.topology.nonzero_blocks * block * block, seed + 1);
  sparse.dense = {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns), 0.0)};
  for (std::size_t q = 0; q < sparse.topology.row_indices.size(); ++q)
    for (std::int64_t i = 0; i < block; ++i)
      for (std::int64_t j = 0; j < block; ++j)
        sparse.dense.values[static_cast<std::size_t>((sparse.topology.row_indices[q] * block + i) * columns +
                                                     sparse.topology.column_indices[q] * block + j)] =
            sparse.values[static_cast<std::size_t>((static_cast<std::int64_t>(q) * block + i) * block + j)];
  return sparse;
}

void require_close(const Dense& actual, const Dense& expected) {
  REQUIRE(actual.rows == expected.rows);
  REQUIRE(actual.columns == expected.columns);
  for (std::size_t i = 0; i < actual.values.size(); ++i)
    REQUIRE(actual.values[i] == Approx(expected.values[i]).margin(1e-11));
}

void check_every_verb(std::int64_t block, std::int64_t rows, std::int64_t columns, std::int64_t width,
                      double sparsity, std::uint32_t seed) {
  for (int transposes = 0; transposes < 8; ++transposes) {
    const bool sparse_t = transposes & 1, dense_t = transposes & 2, third_t = transposes & 4;
    const Sparse s =
        random_sparse(block, sparse_t ? columns : rows, sparse_t ? rows : columns, sparsity, seed);
    const Dense sparse_read = sparse_t ? transpose_of(s.dense) : s.dense;
    const HostBlockSparseMatrix<const double> view{&s.topology, s.values.data(), sparse_t};

    const Dense right = random_dense(columns, width, seed + 2), left = random_dense(width, rows, seed + 3);
    Stored dsd_out = unwritten(rows, width, third_t), dds_out = unwritten(width, columns, third_t);
    reference_dsd(view, stored(right, dense_t).view(), dsd_out.writable());
    require_close(dsd_out.read(), multiplied(sparse_read, right));
    reference_dds(stored(left, dense_t).view(), view, dds_out.writable());
    require_close(dds_out.read(), multiplied(left, sparse_read));

    const Dense a = random_dense(rows, width, seed + 4), b = random_dense(width, columns, seed + 5);
    std::vector<double> values(s.values.size(), std::nan(""));
    reference_sdd(stored(a, dense_t).view(), stored(b, third_t).view(),
                  {&s.topology, values.data(), sparse_t});
    Dense product = multiplied(a, b);
    for (std::size_t i = 0; i < product.values.size(); ++i)
      if (sparse_read.values[i] == 0.0) product.values[i] = 0.0;
    Stored written = unwritten(rows, columns, dense_t);
    reference_to_dense({&s.topology, values.data(), sparse_t}, written.writable());
    require_close(written.read(), product);

    std::vector<double> gathered(s.values.size(), std::nan(""));
    reference_from_dense(stored(sparse_read, third_t).view(), {&s.topology, gathered.data(), sparse_t});
    REQUIRE(gathered == s.values);
  }
}

}  // namespace

TEST_CASE("reference block-sparse verbs equal dense products for every transpose", "[reference]") {
  check_every_verb(16, 64, 48, 21, 0.5, 1);
  check_every_verb(16, 16, 96, 1, 0.75, 2);
  check_every_verb(32, 64, 64, 40, 0.25, 3);
  check_every_verb(64, 128, 64, 17, 0.0, 4);
  check_every_verb(128, 128, 256, 5, 0.5, 5);
}

TEST_CASE("reference block-sparse verbs at zero sizes and without blocks", "[reference]") {
  check_every_verb(16, 32, 32, 8, 1.0, 1);
  check_every_verb(16, 32, 32, 0, 0.5, 2);
  check_every_verb(16, 0, 32, 8, 0.5, 3);
  check_every_verb(16, 32, 0, 8, 0.5, 4);
}

TEST_CASE("topology_of_pattern equals the closed form of a blocked layout", "[reference]") {
  const std::vector<std::int64_t> rows{3, 0, 130, 128}, d_ff{256};
  const BlockTopology closed = block_topology(row_layout_from_counts(rows, 128), d_ff);
  const BlockTopology sorted =
      topology_of_pattern(128, closed.block_columns, closed.offsets, closed.column_indices);
  CHECK(sorted.block_rows == closed.block_rows);
  CHECK(sorted.nonzero_blocks == closed.nonzero_blocks);
  CHECK(sorted.row_indices == closed.row_indices);
  CHECK(sorted.offsets_transposed == closed.offsets_transposed);
  CHECK(sorted.column_indices_transposed == closed.column_indices_transposed);
  CHECK(sorted.block_offsets_transposed == closed.block_offsets_transposed);
}

TEST_CASE("topology_of_pattern refuses what is no pattern", "[reference]") {
  CHECK_THROWS_AS(topology_of_pattern(48, 2, {0, 1}, {0}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {}, {}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {0, 2}, {0}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {0, 2, 1}, {0}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {0, 2}, {1, 0}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {0, 2}, {1, 1}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, 2, {0, 1}, {2}), Error);
  CHECK_THROWS_AS(topology_of_pattern(16, -1, {0}, {}), Error);
}

TEST_CASE("block-sparse shapes that do not match are refused", "[reference]") {
  const Sparse s = random_sparse(16, 32, 48, 0.5, 1);
  std::vector<double> memory(48 * 48, 0.0), values = s.values;
  const HostBlockSparseMatrix<const double> sparse{&s.topology, s.values.data()};
  const HostDenseMatrix<const double> dense{memory.data(), 32, 8, 8};
  const HostDenseMatrix<double> out{memory.data() + 32 * 8, 32, 8, 8};
  CHECK_THROWS_AS(reference_dsd(sparse, dense, out), Error);
  CHECK_THROWS_AS(reference_dds(dense, sparse, out), Error);
  CHECK_THROWS_AS(reference_sdd(dense, dense, {&s.topology, values.data()}), Error);
  CHECK_THROWS_AS(reference_to_dense(sparse, out), Error);
  CHECK_THROWS_AS(reference_from_dense(dense, {&s.topology, values.data()}), Error);
}

TEST_CASE("packed expert products equal the blocked ones on the same routing", "[reference]") {
  const std::int64_t experts = 5, d_model = 24, d_ff = 32, block = 16, tokens = 61;
  std::vector<std::int32_t> ids;
  for (const double value : random_values<double>(tokens, 77))
    ids.push_back(static_cast<std::int32_t>(std::floor((value + 1.0) * 0.5 * (experts + 1))) - 1);
  std::replace(ids.begin(), ids.end(), 3, 4);  // expert 3 stays empty
  const RowLayout packed =
      row_layout_from_ids(ArrayView<const std::int32_t>(ids.data(), ids.size()), experts);
  const RowLayout blocked =
      row_layout_from_ids(ArrayView<const std::int32_t>(ids.data(), ids.size()), experts, block);
  const std::vector<std::int64_t> width{d_ff};
  const BlockTopology topology = block_topology(blocked, width);

  const Dense x = random_dense(tokens, d_model, 1), w1 = random_dense(d_model, experts * d_ff, 2),
              w2 = random_dense(experts * d_ff, d_model, 3);
  const auto gathered = [&](const RowLayout& layout) {
    Dense rows{layout.scheduled_rows, d_model, {}};
    for (const std::int64_t assignment : layout.row_to_assignment)
      for (std::int64_t c = 0; c < d_model; ++c)
        rows.values.push_back(assignment < 0 ? 0.0 : x.at(assignment, c));
    return rows;
  };
  const Dense packed_x = gathered(packed), blocked_x = gathered(blocked);

  HostExpertWeights<double> weights_1{
      experts, d_model, d_ff, WeightOrder::k_by_n, experts * d_ff, {w1.values.data(), d_ff, {}}, {}, {}, {}};
  HostExpertWeights<double> weights_2{
      experts, d_ff, d_model, WeightOrder::k_by_n, d_model, {w2.values.data(), d_ff * d_model, {}},
      {},      {},   {}};
  const HostExpertRows rows{packed.row_offsets, packed.rows_per_expert};
  std::vector<double> h(static_cast<std::size_t>(packed.useful_rows * d_ff), std::nan(""));
  std::vector<double> y(static_cast<std::size_t>(packed.useful_rows * d_model), std::nan(""));
  std::vector<double> dw2(static_cast<std::size_t>(experts * d_ff * d_model), std::nan(""));
  reference_sdd(rows, {packed_x.values.data(), d_model}, weights_1, {h.data(), d_ff});
  reference_dsd(rows, {h.data(), d_ff}, weights_2, {y.data(), d_model});
  reference_weight_gradient(rows, {h.data(), d_ff}, {packed_x.values.data(), d_model},
                            {experts, d_ff, d_model, d_model, d_ff * d_model, dw2.data()});

  std::vector<double> values(static_cast<std::size_t>(topology.nonzero_blocks * block * block), std::nan(""));
  Dense blocked_y = random_dense(blocked.scheduled_rows, d_model, 4), blocked_dw2 = w2;
  const HostBlockSparseMatrix<const double> h_blocks{&topology, values.data(), false};
  const HostDenseMatrix<const double> blocked_rows{blocked_x.values.data(), blocked_x.rows, d_model, d_model};
  reference_sdd(blocked_rows, {w1.values.data(), d_model, experts * d_ff, experts * d_ff},
                {&topology, values.data(), false});
  reference_dsd(h_blocks, {w2.values.data(), experts * d_ff, d_model, d_model},
                {blocked_y.values.data(), blocked_y.rows, d_model, d_model});
  reference_dsd({&topology, values.data(), true}, blocked_rows,
                {blocked_dw2.values.data(), experts * d_ff, d_model, d_model});
  for (std::size_t a = 0; a < ids.size(); ++a) {
    if (ids[a] < 0) continue;
    for (std::int64_t c = 0; c < d_model; ++c)
      REQUIRE(y[static_cast<std::size_t>(packed.assignment_to_row[a] * d_model + c)] ==
              Approx(blocked_y.at(blocked.assignment_to_row[a], c)).margin(1e-11));
  }
  for (std::size_t i = 0; i < dw2.size(); ++i) REQUIRE(dw2[i] == Approx(blocked_dw2.values[i]).margin(1e-11));
}
