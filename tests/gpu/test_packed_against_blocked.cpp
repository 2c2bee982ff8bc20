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
  Agreement(const char* name, ElementType type, bool same_bits)
      : name_(name), accuracy_(type), same_bits_(same_bits) {}
  ~Agreement() {
    INFO(name_);
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
  const char* name_;
  ProductAccuracy accuracy_;
  bool same_bits_;
  std::int64_t differences_ = 0;
};

ExpertGradients gradients_in(const DeviceDense& matrix, std::int64_t experts, std::int64_t m,
                             std::int64_t n) {
  ExpertGradients gradients;
  gradients.type = matrix.view().type;
  gradients.experts = experts;
  gradients.m = m;
  gradients.n = gradients.leading_dimension = n;
  gradients.expert_stride = m * n;
  gradients.data = matrix.view().data;
  return gradients;
}

/// The products of a linear layer pair, forward and backward: h = x w1, y = h w2, dh = dy w2^T, dx = dh w1^T,
/// dw1 = x^T dh, dw2 = h^T dy.
void compare(ElementType type, std::int64_t block, KernelPath path) {
  const std::int64_t tokens = 300, experts = 6, d_model = 192, d_ff = 256, all_columns = experts * d_ff;
  const std::vector<std::int32_t> ids = random_expert_ids(tokens, 2, static_cast<int>(experts), 3, 1, 5);
  const ArrayView<const std::int32_t> id_view(ids.data(), ids.size());
  const RowLayout packed = row_layout_from_ids(id_view, experts),
                  blocked = row_layout_from_ids(id_view, experts, block);
  const std::vector<std::int64_t> width{d_ff};
  const auto row_bytes = static_cast<std::size_t>(d_model * element_bytes(type));
  const auto assignments = static_cast<std::int64_t>(ids.size());
  const std::vector<unsigned char> inputs = random_elements(type, assignments * d_model, 1),
                                   gradients = random_elements(type, assignments * d_model, 4);
  const DeviceBuffer<unsigned char> packed_x(gathered(inputs, packed, row_bytes)),
      blocked_x(gathered(inputs, blocked, row_bytes)), packed_dy(gathered(gradients, packed, row_bytes)),
      blocked_dy(gathered(gradients, blocked, row_bytes));
  const DeviceDense w1(type, d_model, all_columns, false, 0, Fill::random, 2),
      w2(type, all_columns, d_model, false, 0, Fill::random, 3);
  const auto output = [&](std::int64_t rows, std::int64_t columns) {
    return DeviceDense(type, rows, columns, false, 0, Fill::poison, 0);
  };

  const BlockTopology topology = block_topology(blocked, width);
  DeviceBlockSparse blocked_h(type, topology, false, Fill::poison, 0),
      blocked_dh(type, topology, false, Fill::poison, 0);
  DeviceDense blocked_y = output(blocked.scheduled_rows, d_model),
              blocked_dx = output(blocked.scheduled_rows, d_model),
              blocked_dw1 = output(d_model, all_columns), blocked_dw2 = output(all_columns, d_model);
  const DenseMatrix x{blocked_x.data(), blocked.scheduled_rows, d_model, d_model, type};
  const DenseMatrix dy{blocked_dy.data(), blocked.scheduled_rows, d_model, d_model, type};
  const KernelPath blocked_path =
      path == KernelPath::automatic ? sdd_path(x, w1.view(), blocked_h.view()) : path;
  sdd(x, w1.view(), blocked_h.view(), nullptr, path);
  dsd(blocked_h.view(), w2.view(), blocked_y.view(), nullptr, path);
  sdd(dy, transposed(w2.view()), blocked_dh.view(), nullptr, path);
  dsd(blocked_dh.view(), transposed(w1.view()), blocked_dx.view(), nullptr, path);
  dds(transposed(x), blocked_dh.view(), blocked_dw1.view(), nullptr, path);
  dsd(transposed(blocked_h.view()), dy, blocked_dw2.view(), nullptr, path);

  const DeviceBuffer<std::int32_t> row_begin(narrowed(packed.row_offsets)),
      row_count(narrowed(packed.rows_per_expert));
  const DeviceBuffer<unsigned char> tiles(expert_rows_bytes(experts, packed.useful_rows));
  const ExpertRows rows = prepare_expert_rows(row_begin.data(), row_count.data(), experts, packed.useful_rows,
                                              tiles.data(), tiles.bytes(), nullptr);
  DeviceDense packed_h = output(packed.useful_rows, d_ff), packed_dh = output(packed.useful_rows, d_ff),
              packed_y = output(packed.useful_rows, d_model), packed_dx = output(packed.useful_rows, d_model),
              packed_dw1 = output(experts * d_model, d_ff), packed_dw2 = output(all_columns, d_model);
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
  ProductOptions options;
  options.path = path;
  const auto read = [](const DeviceDense& matrix) {
    return RowsView{matrix.view().data, matrix.view().leading_dimension, matrix.view().type};
  };
  const auto written = [](const DeviceDense& matrix) {
    return MutableRowsView{matrix.view().data, matrix.view().leading_dimension, matrix.view().type};
  };
  const RowsView x_rows{packed_x.data(), d_model, type}, dy_rows{packed_dy.data(), d_model, type};
  const KernelPath packed_path =
      path == KernelPath::automatic ? sdd_path(rows, x_rows, weights_1, written(packed_h)) : path;
  sdd(rows, x_rows, weights_1, written(packed_h), options, nullptr);
  dsd(rows, read(packed_h), weights_2, written(packed_y), options, nullptr);
  sdd(rows, dy_rows, transposed(weights_2), written(packed_dh), options, nullptr);
  dsd(rows, read(packed_dh), transposed(weights_1), written(packed_dx), options, nullptr);
  weight_gradient(rows, x_rows, read(packed_dh), gradients_in(packed_dw1, experts, d_model, d_ff), options,
                  nullptr);
  weight_gradient(rows, read(packed_h), dy_rows, gradients_in(packed_dw2, experts, d_ff, d_model), options,
                  nullptr);

  for (DeviceDense* const matrix : {&packed_h, &packed_y, &packed_dh, &packed_dx, &packed_dw1, &packed_dw2,
                                    &blocked_y, &blocked_dx, &blocked_dw1, &blocked_dw2})
    matrix->download();
  for (DeviceBlockSparse* const matrix : {&blocked_h, &blocked_dh}) matrix->download();
  INFO(element_name(type) << ", blocks of " << block);
  const bool same_bits = packed_path == blocked_path;
  Agreement h("h", type, same_bits), y("y", type, same_bits), dh("dh", type, same_bits),
      dx("dx", type, same_bits), dw1("dw1", type, same_bits), dw2("dw2", type, same_bits);
  for (std::size_t assignment = 0; assignment < ids.size(); ++assignment) {
    if (ids[assignment] < 0) continue;
    const std::int64_t from = packed.assignment_to_row[assignment],
                       to = blocked.assignment_to_row[assignment];
    for (std::int64_t c = 0; c < d_ff; ++c) {
      const std::int64_t column = ids[assignment] * d_ff + c;
      h.add(packed_h.value(from, c), blocked_h.value(to, column));
      dh.add(packed_dh.value(from, c), blocked_dh.value(to, column));
    }
    for (std::int64_t c = 0; c < d_model; ++c) {
      y.add(packed_y.value(from, c), blocked_y.value(to, c));
      dx.add(packed_dx.value(from, c), blocked_dx.value(to, c));
    }
  }
  for (std::int64_t column = 0; column < all_columns; ++column)
    for (std::int64_t c = 0; c < d_model; ++c) {
      const std::int64_t expert = column / d_ff;
      dw1.add(packed_dw1.value(expert * d_model + c, column % d_ff), blocked_dw1.value(c, column));
      dw2.add(packed_dw2.value(column, c), blocked_dw2.value(column, c));
    }
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
