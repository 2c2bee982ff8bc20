// The block-sparse products over MoE topologies at the sizes at which other libraries failed: what an expert
// layer asks of them forward and backward, each expert compared with its own weights.
#include <algorithm>

#include "accuracy.hpp"
#include "catch.hpp"
#include "dropless/row_layout.hpp"
#include "kernel_paths.hpp"
#include "matrix_fixtures.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// Rows of experts: the i-th of `rows` goes to expert (i * i) mod experts, so some get many and some none.
std::vector<std::int64_t> skewed_rows(std::int64_t rows, std::int64_t experts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), 0);
  for (std::int64_t i = 0; i < rows; ++i) ++counts[static_cast<std::size_t>(i * i % experts)];
  return counts;
}

/// Part of a matrix: `rows` rows from first_row in steps of row_step, `columns` columns from first_column.
struct Window {
  std::int64_t first_row, rows, row_step, first_column, columns;
};

/// About `most` of the rows [begin, end), evenly spread.
Window sampled(std::int64_t begin, std::int64_t end, std::int64_t most, std::int64_t first_column,
               std::int64_t columns) {
  const std::int64_t step = std::max<std::int64_t>(1, (end - begin) / most);
  return {begin, (end - begin + step - 1) / step, step, first_column, columns};
}

/// Compares a window of `out` with a(window rows, [k_begin, k_end)) b([k_begin, k_end), window columns); `a`
/// and `b` are given from k_begin on.
template <class Output>
void check_window(ElementType type, const Output& out, const Window& window, ReferenceOperand a,
                  ReferenceOperand b, std::int64_t k) {
  a.first_row = window.first_row;
  a.row_step = window.row_step;
  b.first_column = window.first_column;
  const DeviceBuffer<double> sums(static_cast<std::size_t>(window.rows * window.columns)),
      magnitudes(sums.size());
  dense_reference(a, b, window.rows, window.columns, k, sums.data(), magnitudes.data());
  const std::vector<double> expected = sums.download(), bounds = magnitudes.download();
  ProductAccuracy accuracy(type);
  for (std::int64_t i = 0; i < window.rows; ++i)
    for (std::int64_t j = 0; j < window.columns; ++j) {
      const auto index = static_cast<std::size_t>(i * window.columns + j);
      accuracy.add(out.value(window.first_row + i * window.row_step, window.first_column + j),
                   expected[index], bounds[index]);
    }
  CHECK(accuracy.elements_past_bound() == 0);
  CHECK(accuracy.relative_error() <= accuracy.relative_error_limit());
}

ReferenceOperand from_column(ReferenceOperand operand, std::int64_t column) {
  operand.first_column = column;
  return operand;
}
ReferenceOperand from_row(ReferenceOperand operand, std::int64_t row) {
  operand.first_row = row;
  return operand;
}

void check_experts(const std::vector<std::int64_t>& rows_per_expert, std::int64_t d_model, std::int64_t d_ff,
                   std::int64_t block, ElementType type) {
  constexpr std::int64_t most_rows = 48;
  const RowLayout layout = row_layout_from_counts(rows_per_expert, block);
  const std::vector<std::int64_t> widths{d_ff};
  const std::int64_t rows = layout.scheduled_rows, all_columns = layout.experts * d_ff;
  const DeviceDense x(type, rows, d_model, false, 0, Fill::random, 1),
      w1(type, d_model, all_columns, false, 0, Fill::random, 2),
      w2(type, all_columns, d_model, false, 0, Fill::random, 3);
  DeviceBlockSparse h(type, block_topology(layout, widths), false, Fill::poison, 0);
  DeviceDense y(type, rows, d_model, false, 0, Fill::poison, 0),
      dw1(type, d_model, all_columns, false, 0, Fill::poison, 0),
      dw2(type, all_columns, d_model, false, 0, Fill::poison, 0);
  ReferenceOperand x_transposed = x.reference(), h_transposed = h.reference();
  std::swap(x_transposed.row_stride, x_transposed.column_stride);
  std::swap(h_transposed.row_stride, h_transposed.column_stride);
  std::swap(h_transposed.table_row_stride, h_transposed.table_column_stride);
  for (const KernelPath path : all_paths) {
    INFO("path " << path_name(path));
    if (path == KernelPath::sm90 && sdd_path(x.view(), w1.view(), h.view()) != path) continue;
    h.poison();
    for (DeviceDense* const out : {&y, &dw1, &dw2}) out->poison();
    sdd(x.view(), w1.view(), h.view(), nullptr, path);
    dsd(h.view(), w2.view(), y.view(), nullptr, path);
    dsd(transposed(h.view()), x.view(), dw2.view(), nullptr, path);
    dds(transposed(x.view()), h.view(), dw1.view(), nullptr, path);
    h.download();
    for (DeviceDense* const out : {&y, &dw1, &dw2}) out->download();
    CHECK(h.surroundings_intact());
    for (std::size_t e = 0; e < rows_per_expert.size(); ++e) {
      INFO("expert " << e << " of " << layout.experts << ", rows " << rows_per_expert[e]);
      const std::int64_t begin = layout.row_offsets[e], end = layout.row_offsets[e + 1],
                         column = static_cast<std::int64_t>(e) * d_ff;
      check_window(type, h, sampled(begin, end, most_rows, column, d_ff), x.reference(), w1.reference(),
                   d_model);
      check_window(type, y, sampled(begin, end, most_rows, 0, d_model), from_column(h.reference(), column),
                   from_row(w2.reference(), column), d_ff);
      check_window(type, dw2, sampled(column, column + d_ff, most_rows, 0, d_model),
                   from_column(h_transposed, begin), from_row(x.reference(), begin), end - begin);
      check_window(type, dw1, sampled(0, d_model, most_rows, column, d_ff), from_column(x_transposed, begin),
                   from_row(h.reference(), begin), end - begin);
    }
  }
}

}  // namespace

TEST_CASE("experts whose block indices pass int16", "[block_sparse][experts]") {
  check_experts(skewed_rows(4096, 16), 512, 4096, 128, ElementType::bf16);
  check_experts({40000}, 512, 4096, 128, ElementType::bf16);
  check_experts(skewed_rows(4096, 16), 512, 4096, 16, ElementType::bf16);
}

TEST_CASE("experts in blocks of 64: d_ff 1408 and 192", "[block_sparse][experts]") {
  check_experts(skewed_rows(2048 * 6, 64), 1024, 1408, 64, ElementType::bf16);
  check_experts(skewed_rows(2048 * 6, 64), 1024, 192, 64, ElementType::fp16);
}

TEST_CASE("fine-grained experts: d_ff 128", "[block_sparse][experts]") {
  check_experts(skewed_rows(4096 * 8, 48), 1536, 128, 128, ElementType::bf16);
}

TEST_CASE("block values past 2^31 elements", "[block_sparse][experts]") {
  check_experts({32896}, 64, 65536, 128, ElementType::bf16);
}

TEST_CASE("empty experts and one-row experts in blocks", "[block_sparse][experts][small]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32}) {
    check_experts({0, 128, 0, 64}, 64, 64, 32, type);
    check_experts({1, 7, 0, 9}, 72, 48, 16, type);
    check_experts({0, 0, 0}, 64, 64, 64, type);
    check_experts({0, 130, 1, 0, 64}, 72, 192, 64, type);
    check_experts({1, 0, 300}, 328, 384, 128, type);
  }
}
