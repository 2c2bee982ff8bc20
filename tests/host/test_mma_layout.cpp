// The index functions of the tensor-core tiles, proved by emulating ldmatrix and mma.m16n8k16 lane by lane as
// the PTX manual defines them and comparing with the plain product.
#include "mma_layout.hpp"

#include <array>
#include <set>
#include <vector>

#include "catch.hpp"

using namespace dropless;

namespace {

/// The four registers (two elements each) of every lane after ldmatrix.x4 of the 16 x 16 piece at (d, k).
using Fragment = std::array<std::array<std::array<int, 2>, 4>, 32>;

template <int D, int K>
Fragment emulated_ldmatrix(const std::vector<int>& stage, OperandStage<D, K> layout, bool left, int d,
                           int k) {
  std::array<int, 32> row_starts{};
  for (int lane = 0; lane < 32; ++lane) {
    const PieceChunk source = ldmatrix_source(lane, left, layout.k_inner);
    const int row = (layout.k_inner ? d : k) + source.row;
    const int chunk = (layout.k_inner ? k : d) / chunk_elements + source.chunk;
    row_starts[static_cast<std::size_t>(lane)] = layout.slot(row, chunk) * chunk_elements;
  }
  const auto element = [&](int matrix, int row, int column) {
    return stage[static_cast<std::size_t>(row_starts[static_cast<std::size_t>(matrix * 8 + row)] + column)];
  };
  Fragment fragment{};
  for (int lane = 0; lane < 32; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix)
      for (int half = 0; half < 2; ++half) {
        const int row = lane / 4, column = lane % 4 * 2 + half;
        fragment[static_cast<std::size_t>(lane)][static_cast<std::size_t>(matrix)]
                [static_cast<std::size_t>(half)] =
                    layout.k_inner ? element(matrix, row, column) : element(matrix, column, row);
      }
  return fragment;
}

/// mma.m16n8k16 of whole fragments, for the n8 half `n_half` of the right one.
std::vector<int> emulated_mma(const Fragment& left, const Fragment& right, int n_half) {
  std::array<std::array<int, 16>, 16> a{};
  std::array<std::array<int, 8>, 16> b{};
  for (std::size_t lane = 0; lane < 32; ++lane)
    for (std::size_t half = 0; half < 2; ++half) {
      const std::size_t group = lane / 4, pair = lane % 4 * 2 + half;
      for (std::size_t r = 0; r < 4; ++r) a[group + 8 * (r % 2)][pair + 8 * (r / 2)] = left[lane][r][half];
      for (std::size_t r = 0; r < 2; ++r)
        b[pair + 8 * r][group] = right[lane][static_cast<std::size_t>(2 * n_half) + r][half];
    }
  std::vector<int> c(16 * 8, 0);
  for (std::size_t m = 0; m < 16; ++m)
    for (std::size_t n = 0; n < 8; ++n)
      for (std::size_t k = 0; k < 16; ++k) c[m * 8 + n] += a[m][k] * b[k][n];
  return c;
}

template <int D, int K>
void check_stage_product(bool left_k_inner, bool right_k_inner) {
  const OperandStage<D, K> left_layout{left_k_inner}, right_layout{right_k_inner};
  const auto left_value = [](int m, int k) { return (m * 7 + k * 3) % 11 - 5; };
  const auto right_value = [](int n, int k) { return (n * 5 + k * 2 + n * k) % 13 - 6; };
  std::vector<int> left(D * K, 1000), right(D * K, 1000);
  for (int d = 0; d < D; ++d)
    for (int k = 0; k < K; ++k) {
      left[static_cast<std::size_t>(left_layout.element(d, k))] = left_value(d, k);
      right[static_cast<std::size_t>(right_layout.element(d, k))] = right_value(d, k);
    }
  std::vector<int> product(D * D, 0);
  for (int m = 0; m < D; m += 16)
    for (int n = 0; n < D; n += 16)
      for (int k = 0; k < K; k += 16) {
        const Fragment a = emulated_ldmatrix(left, left_layout, true, m, k);
        const Fragment b = emulated_ldmatrix(right, right_layout, false, n, k);
        for (int n_half = 0; n_half < 2; ++n_half) {
          const std::vector<int> c = emulated_mma(a, b, n_half);
          for (int lane = 0; lane < 32; ++lane)
            for (int i = 0; i < 4; ++i) {
              const int row = accumulator_row(lane, i), column = accumulator_column(lane, i);
              product[static_cast<std::size_t>((m + row) * D + n + n_half * 8 + column)] +=
                  c[static_cast<std::size_t>(row * 8 + column)];
            }
        }
      }
  for (int m = 0; m < D; ++m)
    for (int n = 0; n < D; ++n) {
      int expected = 0;
      for (int k = 0; k < K; ++k) expected += left_value(m, k) * right_value(n, k);
      REQUIRE(product[static_cast<std::size_t>(m * D + n)] == expected);
    }
}

}  // namespace

TEST_CASE("ldmatrix sources and accumulators compute the product in every orientation", "[mma_layout]") {
  for (const bool left_k_inner : {false, true})
    for (const bool right_k_inner : {false, true}) {
      check_stage_product<16, 16>(left_k_inner, right_k_inner);
      check_stage_product<32, 32>(left_k_inner, right_k_inner);
      check_stage_product<64, 32>(left_k_inner, right_k_inner);
      check_stage_product<128, 64>(left_k_inner, right_k_inner);
    }
}

TEST_CASE("swizzled slots cover a stage once and never share a bank group within 8 rows", "[mma_layout]") {
  for (const int chunks_per_row : {1, 2, 4, 8, 16, 32}) {
    const int rows = 64;
    std::set<int> slots;
    for (int row = 0; row < rows; ++row)
      for (int chunk = 0; chunk < chunks_per_row; ++chunk) {
        const int slot = swizzled_slot(row, chunk, chunks_per_row);
        REQUIRE(slot >= 0);
        REQUIRE(slot < rows * chunks_per_row);
        slots.insert(slot);
      }
    REQUIRE(slots.size() == static_cast<std::size_t>(rows * chunks_per_row));
    for (int row = 0; row < rows; row += 8)
      for (int chunk = 0; chunk < chunks_per_row; ++chunk) {
        std::set<int> groups;
        for (int i = 0; i < 8; ++i) groups.insert(swizzled_slot(row + i, chunk, chunks_per_row) % 8);
        REQUIRE(groups.size() == 8);
      }
  }
}

TEST_CASE("a stage's chunk indices and element indices agree", "[mma_layout]") {
  for (const bool k_inner : {false, true}) {
    const OperandStage<64, 32> layout{k_inner};
    std::set<int> elements;
    for (int index = 0; index < layout.chunks; ++index) {
      const int row = layout.row_of(index), chunk = layout.chunk_of(index);
      for (int i = 0; i < chunk_elements; ++i) {
        const int inner = chunk * chunk_elements + i;
        const int element = k_inner ? layout.element(row, inner) : layout.element(inner, row);
        REQUIRE(element == layout.slot(row, chunk) * chunk_elements + i);
        elements.insert(element);
      }
    }
    REQUIRE(elements.size() == 64 * 32);
  }
}
