// The packed expert products and the block-sparse ones over the same routing: one language, two layouts. On
// one path both take k in the same steps, so their bits agree; across paths they agree to rounding.
#include <algorithm>

#include "accuracy.hpp"
#include "catch.hpp"
#include "dropless/expert_products.hpp"
#include "dropless/row_layout.hpp"
#include "matrix_fixtures.hpp"
#include "routing.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// The rows of `assignments` [n, columns] in the order of a layout, zeros where it pads.
std::vector<unsigned char> gathered(const std::vector<unsigned char>& assignments, const RowLayout& layout,
                                    std::size_t row_bytes) {
  std::vector<unsigned char> rows(layout.row_to_assignment.size() * row_bytes, 0);
  for (std::size_t row = 0; row < layout.row_to_assignment.size(); ++row)
    if (layout.row_to_assignment[row] >= 0)
      std::copy_n(
          assignments.begin() + layout.row_to_assignment[row] * static_cast<std::ptrdiff_t>(row_bytes),
          row_bytes, rows.begin() + static_cast<std::ptrdiff_t>(row * row_bytes));
  return rows;
}

std::vector<std::int32_t> narrowed(const std::vector<std::int64_t>& values) {
  std::vector<std::int32_t> result;
  for (const std::int64_t value : values) result.push_back(static_cast<std::int32_t>(value));
  return result;
}

/// Whether two products agree: to rounding, and in every bit where `same_bits`.
class Agreement {
 public:
  Agreement(ElementType type, bool same_bits) : accuracy_(type), same_bits_(same_bits) {}
  ~Agreement() {
    CHECK(accuracy_.relative_error() <= 2 * accuracy_.relative_error_limit());
    if (same_bits_) CHECK(differences_ == 0);
  }
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;
  void add(double packed, double blocked) {
    accuracy_.add(packed, blocked, 0.0);
    if (packed != blocked) ++differences_;
  }

 private:
  ProductAccuracy accuracy_;
  bool same_bits_;
  std::int64_t differences_ = 0;
};

void compare(ElementType type, std::int64_t block, KernelPath path) {
  const std::int64_t tokens = 300, experts = 6, d_model = 192, d_ff = 256, all_columns = experts * d_ff;
  const std::vector<std::int32_t> ids = random_expert_ids(tokens, 2, static_cast<int>(experts), 3, 1, 5);
  const ArrayView<const std::int32_t> id_view(ids.data(), ids.size());
  const RowLayout packed = row_layout_from_ids(id_view, experts),
                  blocked = row_layout_from_ids(id_view, experts, block);
  const std::vector<std::int64_t> width{d_ff};
  const auto row_bytes = static_cast<std::size_t>(d_model * element_bytes(type));
  const std::vector<unsigned char> inputs =
      random_elements(type, static_cast<std::int64_t>(ids.size()) * d_model, 1);
  const DeviceBuffer<unsigned char> packed_x(gathered(inputs, packed, row_bytes)),
      blocked_x(gathered(inputs, blocked, row_bytes));
  const DeviceDense w1(type, d_model, all_columns, false, 0, Fill::random, 2),
      w2(type, all_columns, d_model, false, 0, Fill::random, 3);

  DeviceBlockSparse blocked_h(type, block_topology(blocked, width), false, Fill::poison, 0);
  DeviceDense blocked_y(type, blocked.scheduled_rows, d_model, false, 0, Fill::poison, 0),
      blocked_dw2(type, all_columns, d_model, false, 0, Fill::poison, 0);
  const DenseMatrix x{blocked_x.data(), blocked.scheduled_rows, d_model, d_model, type};
  const KernelPath blocked_path =
      path == KernelPath::automatic ? sdd_path(x, w1.view(), blocked_h.view()) : path;
  sdd(x, w1.view(), blocked_h.view(), nullptr, path);
  dsd(blocked_h.view(), w2.view(), blocked_y.view(), nullptr, path);
  dsd(transposed(blocked_h.view()), x, blocked_dw2.view(), nullptr, path);

  const DeviceBuffer<std::int32_t> row_begin(narrowed(packed.row_offsets)),
      row_count(narrowed(packed.rows_per_expert));
  const DeviceBuffer<unsigned char> tiles(expert_rows_bytes(experts, packed.useful_rows));
  const ExpertRows rows = prepare_expert_rows(row_begin.data(), row_count.data(), experts, packed.useful_rows,
                                              tiles.data(), tiles.bytes(), nullptr);
  DeviceDense packed_h(type, packed.useful_rows, d_ff, false, 0, Fill::poison, 0),
      packed_y(type, packed.useful_rows, d_model, false, 0, Fill::poison, 0),
      packed_dw2(type, all_columns, d_model, false, 0, Fill::poison, 0);
  ExpertWeights weights_1, weights_2;
  weights_1.type = weights_2.type = type;
  weights_1.experts = weights_2.experts = experts;
  weights_1.k = weights_2.n = weights_2.leading_dimension = d_model;
  weights_1.n = weights_2.k = d_ff;
  weights_1.leading_dimension = all_columns;
  weights_1.first.data = w1.view().data;
  weights_1.first.expert_stride = d_ff;
  weights_2.first.data = w2.view().data;
  weights_2.first.expert_stride = d_ff * d_model;
  ExpertGradients gradients;
  gradients.type = type;
  gradients.experts = experts;
  gradients.m = d_ff;
  gradients.n = gradients.leading_dimension = d_model;
  gradients.expert_stride = d_ff * d_model;
  gradients.data = packed_dw2.view().data;
  ProductOptions options;
  options.path = path;
  const RowsView x_rows{packed_x.data(), d_model, type}, h_rows{packed_h.view().data, d_ff, type};
  sdd(rows, x_rows, weights_1, {packed_h.view().data, d_ff, type}, options, nullptr);
  dsd(rows, h_rows, weights_2, {packed_y.view().data, d_model, type}, options, nullptr);
  weight_gradient(rows, h_rows, x_rows, gradients, options, nullptr);

  for (DeviceDense* const matrix : {&packed_h, &packed_y, &packed_dw2, &blocked_y, &blocked_dw2})
    matrix->download();
  blocked_h.download();
  const KernelPath packed_path = path == KernelPath::automatic
                                     ? sdd_path(rows, x_rows, weights_1, {packed_h.view().data, d_ff, type})
                                     : path;
  const bool same_bits = packed_path == blocked_path;
  Agreement h(type, same_bits), y(type, same_bits), dw2(type, same_bits);
  for (std::size_t assignment = 0; assignment < ids.size(); ++assignment) {
    if (ids[assignment] < 0) continue;
    const std::int64_t from = packed.assignment_to_row[assignment],
                       to = blocked.assignment_to_row[assignment];
    for (std::int64_t c = 0; c < d_ff; ++c)
      h.add(packed_h.value(from, c), blocked_h.value(to, ids[assignment] * d_ff + c));
    for (std::int64_t c = 0; c < d_model; ++c) y.add(packed_y.value(from, c), blocked_y.value(to, c));
  }
  for (std::int64_t row = 0; row < all_columns; ++row)
    for (std::int64_t c = 0; c < d_model; ++c) dw2.add(packed_dw2.value(row, c), blocked_dw2.value(row, c));
}

}  // namespace

TEST_CASE("packed and blocked products agree on the same routing", "[block_sparse][expert_products][small]") {
  for (const std::int64_t block : {16, 32, 64, 128}) {
    for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
      compare(type, block, KernelPath::portable);
    for (const ElementType type : {ElementType::bf16, ElementType::fp16})
      compare(type, block, KernelPath::automatic);
  }
}
