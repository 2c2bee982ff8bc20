// Gather, combine and their gradients against plain loops in double, and their promises.
#include <cmath>
#include <random>

#include "built_topology.hpp"
#include "device_stream.hpp"
#include "dropless/permutation.hpp"
#include "element_conversion.cuh"
#include "routing.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

template <class Element>
constexpr ElementType type_of = ElementType::fp32;
template <>
constexpr ElementType type_of<__nv_bfloat16> = ElementType::bf16;
template <>
constexpr ElementType type_of<__half> = ElementType::fp16;

/// A rounding step of the type, relative to the result.
template <class Element>
double unit() {
  if (type_of<Element> == ElementType::fp32) return 0;
  return std::ldexp(1.0, type_of<Element> == ElementType::bf16 ? -8 : -11);
}

/// A [rows, columns] matrix in guarded device memory, its rows `pitch` elements apart, beginning `shift`
/// elements into the buffer; what no element covers is NaN.
template <class Element>
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, std::int64_t pitch, std::int64_t shift)
      : rows_(rows),
        columns_(columns),
        pitch_(pitch),
        shift_(shift),
        buffer_(static_cast<std::size_t>(rows * pitch + shift)) {}

  void fill_random(std::uint32_t seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<Element> values = buffer_.download();
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c) values[index(r, c)] = from_float<Element>(uniform(random));
    buffer_.upload(values);
  }
  /// The elements [rows * columns] as floats.
  std::vector<float> values() const {
    const std::vector<Element> all = buffer_.download();
    std::vector<float> result;
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c) result.push_back(to_float(all[index(r, c)]));
    return result;
  }
  /// Whether nothing but the elements was written.
  bool surroundings_intact() const {
    std::vector<Element> all = buffer_.download();
    std::vector<bool> covered(all.size(), false);
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c) covered[index(r, c)] = true;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!covered[i] && !std::isnan(to_float(all[i]))) return false;
    return buffer_.guards_intact();
  }
  RowsView view() const { return {buffer_.data() + shift_, pitch_, type_of<Element>}; }
  MutableRowsView mutable_view() const { return {buffer_.data() + shift_, pitch_, type_of<Element>}; }

 private:
  std::size_t index(std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(row * pitch_ + column + shift_);
  }
  std::int64_t rows_, columns_, pitch_, shift_;
  DeviceBuffer<Element> buffer_;
};

/// |value - expected| within the type's rounding (fp16 has numbers without full precision below 2^-14) and
/// float summation over `magnitude` = sum of |terms|.
template <class Element>
bool close(float value, double expected, double magnitude) {
  const double least = type_of<Element> == ElementType::fp16 ? std::ldexp(1.0, -25) : 0;
  return std::abs(value - expected) <= unit<Element>() * std::abs(expected) + least + 1e-5 * magnitude;
}

struct Shape {
  std::int64_t tokens, top_k, columns, pitch, shift;
  const char* description;
};

/// A random batch: some assignments unrouted, expert rows and their order on the host and the device.
struct Batch {
  Batch(std::int64_t tokens, std::int64_t top_k, std::uint32_t seed)
      : ids(random_expert_ids(tokens, static_cast<int>(top_k),
                              static_cast<int>(std::max<std::int64_t>(top_k, 24)), seed, 1, 15)),
        layout(row_layout_from_ids(ArrayView<const std::int32_t>(ids), std::max<std::int64_t>(top_k, 24))),
        order_array(
            std::vector<std::int32_t>(layout.assignment_to_row.begin(), layout.assignment_to_row.end())),
        order{tokens, top_k, order_array.data()} {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0.1f, 1);
    for (std::size_t i = 0; i < ids.size(); ++i) weights.push_back(uniform(random));
  }
  std::int64_t row(std::int64_t token, std::int64_t slot) const {
    return layout.assignment_to_row[static_cast<std::size_t>(token * order.top_k + slot)];
  }
  std::vector<std::int32_t> ids;
  RowLayout layout;
  DeviceBuffer<std::int32_t> order_array;
  RowOrder order;
  std::vector<float> weights;
};

const Shape shapes[] = {{5, 2, 8, 8, 0, "one vector a row"},
                        {7, 3, 200, 208, 0, "aligned with a pitch"},
                        {4, 1, 37, 37, 0, "odd width"},
                        {6, 2, 64, 72, 1, "odd base"},
                        {3, 40, 520, 520, 0, "more than 32 slots"},
                        {33, 8, 1032, 1040, 8, "several warps"},
                        {3, 5, 4360, 4368, 8, "several segments"},
                        {2, 2, 8712, 8712, 0, "several segments of few slots"},
                        {3, 3, 1100, 1101, 0, "several segments of single elements"}};

}  // namespace

TEMPLATE_TEST_CASE("gather moves every token's row to each of its rows", "[small]", __nv_bfloat16, __half,
                   float) {
  const Shape shape = GENERATE(from_range(std::begin(shapes), std::end(shapes)));
  CAPTURE(shape.description);
  const Batch batch(shape.tokens, shape.top_k, 3);
  // Four rows more than the order has: nobody may touch them.
  Matrix<TestType> x(shape.tokens, shape.columns, shape.pitch, shape.shift);
  const Matrix<TestType> rows(batch.layout.useful_rows + 4, shape.columns, shape.pitch, shape.shift);
  x.fill_random(1);
  const DeviceStream stream;
  gather(batch.order, x.view(), rows.mutable_view(), shape.columns, stream);
  const std::vector<float> from = x.values(), to = rows.values();
  const auto columns = static_cast<std::size_t>(shape.columns);
  bool equal = true, untouched = true;
  for (std::int64_t r = 0; r < batch.layout.useful_rows + 4; ++r)
    for (std::size_t c = 0; c < columns; ++c) {
      const float moved = to[static_cast<std::size_t>(r) * columns + c];
      if (r >= batch.layout.useful_rows) {
        untouched = untouched && std::isnan(moved);
      } else {
        const auto token = batch.layout.row_to_assignment[static_cast<std::size_t>(r)] / shape.top_k;
        equal = equal && moved == from[static_cast<std::size_t>(token) * columns + c];
      }
    }
  CHECK(equal);
  CHECK(untouched);
  CHECK(x.surroundings_intact());
  CHECK(rows.surroundings_intact());
}

TEMPLATE_TEST_CASE("combine sums each token's rows with their weights", "[small]", __nv_bfloat16, __half,
                   float) {
  const Shape shape = GENERATE(from_range(std::begin(shapes), std::end(shapes)));
  const bool weighted = GENERATE(true, false), accumulate = GENERATE(false, true);
  CAPTURE(shape.description, weighted, accumulate);
  const Batch batch(shape.tokens, shape.top_k, 5);
  Matrix<TestType> rows(batch.layout.useful_rows, shape.columns, shape.pitch, shape.shift);
  Matrix<TestType> out(shape.tokens, shape.columns, shape.pitch, shape.shift);
  rows.fill_random(2);
  if (accumulate) out.fill_random(4);
  const std::vector<float> before = out.values();
  const DeviceBuffer<float> weights(batch.weights);
  const DeviceStream stream;
  combine(batch.order, rows.view(), weighted ? weights.data() : nullptr, out.mutable_view(), shape.columns,
          accumulate, stream);
  const std::vector<float> from = rows.values(), to = out.values();
  const auto columns = static_cast<std::size_t>(shape.columns);
  bool right = true;
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t element = static_cast<std::size_t>(t) * columns + c;
      double sum = accumulate ? before[element] : 0, magnitude = std::abs(sum);
      for (std::int64_t s = 0; s < shape.top_k; ++s) {
        if (batch.row(t, s) < 0) continue;
        const double weight = weighted ? batch.weights[static_cast<std::size_t>(t * shape.top_k + s)] : 1.0;
        const double term = weight * from[static_cast<std::size_t>(batch.row(t, s)) * columns + c];
        sum += term;
        magnitude += std::abs(term);
      }
      right = right && close<TestType>(to[element], sum, magnitude);
    }
  CHECK(right);
  CHECK(rows.surroundings_intact());
  CHECK(out.surroundings_intact());
}

TEMPLATE_TEST_CASE("combine's backward gives both gradients", "[small]", __nv_bfloat16, __half, float) {
  const Shape shape = GENERATE(from_range(std::begin(shapes), std::end(shapes)));
  CAPTURE(shape.description);
  const Batch batch(shape.tokens, shape.top_k, 6);
  Matrix<TestType> rows(batch.layout.useful_rows, shape.columns, shape.pitch, shape.shift);
  Matrix<TestType> out_gradient(shape.tokens, shape.columns, shape.pitch, shape.shift);
  const Matrix<TestType> rows_gradient(batch.layout.useful_rows + 2, shape.columns, shape.pitch, shape.shift);
  rows.fill_random(7);
  out_gradient.fill_random(8);
  const DeviceBuffer<float> weights(batch.weights), weights_gradient(batch.ids.size());
  const DeviceStream stream;
  CombineGradients gradients;
  gradients.rows = rows_gradient.mutable_view();
  gradients.weights = weights_gradient.data();
  combine_backward(batch.order, rows.view(), weights.data(), out_gradient.view(), gradients, shape.columns,
                   stream);

  const std::vector<float> r = rows.values(), g = out_gradient.values(), dr = rows_gradient.values();
  const std::vector<float> dw = weights_gradient.download();
  const auto columns = static_cast<std::size_t>(shape.columns);
  bool rows_right = true, weights_right = true, untouched = true;
  for (std::int64_t t = 0; t < shape.tokens; ++t)
    for (std::int64_t s = 0; s < shape.top_k; ++s) {
      const auto assignment = static_cast<std::size_t>(t * shape.top_k + s);
      double dot = 0, magnitude = 0;
      for (std::size_t c = 0; c < columns && batch.row(t, s) >= 0; ++c) {
        const std::size_t element = static_cast<std::size_t>(batch.row(t, s)) * columns + c;
        const double gradient = g[static_cast<std::size_t>(t) * columns + c];
        const double expected = gradient * batch.weights[assignment];
        rows_right = rows_right && close<TestType>(dr[element], expected, std::abs(expected));
        dot += gradient * r[element];
        magnitude += std::abs(gradient * r[element]);
      }
      weights_right = weights_right && std::abs(dw[assignment] - dot) <= 1e-5 * magnitude;
    }
  for (std::size_t i = static_cast<std::size_t>(batch.layout.useful_rows) * columns; i < dr.size(); ++i)
    untouched = untouched && std::isnan(dr[i]);
  CHECK(rows_right);
  CHECK(weights_right);
  CHECK(untouched);
  CHECK(rows_gradient.surroundings_intact());
  CHECK(weights_gradient.guards_intact());

  // Each gradient alone has the same bits.
  const Matrix<TestType> rows_alone(batch.layout.useful_rows + 2, shape.columns, shape.pitch, shape.shift);
  const DeviceBuffer<float> weights_alone(batch.ids.size());
  combine_backward(batch.order, {}, weights.data(), out_gradient.view(), {rows_alone.mutable_view(), nullptr},
                   shape.columns, stream);
  combine_backward(batch.order, rows.view(), weights.data(), out_gradient.view(), {{}, weights_alone.data()},
                   shape.columns, stream);
  const std::vector<float> alone = rows_alone.values();
  bool same = weights_alone.download() == dw;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch.layout.useful_rows) * columns; ++i)
    same = same && alone[i] == dr[i];
  CHECK(same);
}

TEST_CASE("a token's combined bits do not depend on its batch") {
  constexpr std::int64_t columns = 2048, top_k = 8;
  const Batch batch(500, top_k, 12);
  Matrix<__nv_bfloat16> rows(batch.layout.useful_rows, columns, columns, 0);
  rows.fill_random(13);
  const Matrix<__nv_bfloat16> all(500, columns, columns, 0);
  const DeviceBuffer<float> weights(batch.weights);
  const DeviceStream stream;
  combine(batch.order, rows.view(), weights.data(), all.mutable_view(), columns, false, stream);
  const std::vector<float> together = all.values();
  bool same = true;
  for (const std::int64_t token : {0, 1, 250, 499}) {
    const Matrix<__nv_bfloat16> one(1, columns, columns, 0);
    combine({1, top_k, batch.order_array.data() + token * top_k}, rows.view(), weights.data() + token * top_k,
            one.mutable_view(), columns, false, stream);
    const std::vector<float> alone = one.values();
    same = same && std::equal(alone.begin(), alone.end(), together.begin() + token * columns);
  }
  CHECK(same);
}

TEST_CASE("more tokens than a grid's second dimension holds") {
  constexpr std::int64_t tokens = 70000, top_k = 3, columns = 8;
  const Batch batch(tokens, top_k, 16);
  Matrix<float> x(tokens, columns, columns, 0);
  x.fill_random(17);
  const Matrix<float> rows(batch.layout.useful_rows, columns, columns, 0), out(tokens, columns, columns, 0);
  const DeviceStream stream;
  gather(batch.order, x.view(), rows.mutable_view(), columns, stream);
  combine(batch.order, rows.view(), nullptr, out.mutable_view(), columns, false, stream);
  const std::vector<float> before = x.values(), after = out.values();
  bool right = true;
  for (std::int64_t t = 0; t < tokens; ++t) {
    double kept = 0;
    for (std::int64_t s = 0; s < top_k; ++s) kept += batch.row(t, s) >= 0;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::size_t i = static_cast<std::size_t>(t) * columns + c;
      right = right && close<float>(after[i], kept * before[i], kept);
    }
  }
  CHECK(right);
}

TEST_CASE("a token without rows combines to zeros", "[small]") {
  const DeviceBuffer<std::int32_t> order(std::vector<std::int32_t>(6, -1));
  const Matrix<float> rows(1, 16, 16, 0), out(3, 16, 16, 0);
  const DeviceStream stream;
  combine({3, 2, order.data()}, rows.view(), nullptr, out.mutable_view(), 16, false, stream);
  CHECK(out.values() == std::vector<float>(3 * 16, 0.0f));
}

TEST_CASE("zero tokens and zero columns launch nothing", "[small]") {
  const Matrix<float> x(2, 8, 8, 0), rows(4, 8, 8, 0);
  const DeviceBuffer<std::int32_t> order(std::vector<std::int32_t>{0, 1, 2, 3});
  const DeviceStream stream;
  gather({0, 2, nullptr}, x.view(), rows.mutable_view(), 8, stream);
  gather({2, 2, order.data()}, x.view(), rows.mutable_view(), 0, stream);
  stream.synchronize();
  for (const float value : rows.values()) CHECK(std::isnan(value));
}

TEST_CASE("permutations are one launch each and can be captured", "[small]") {
  const Batch batch(20, 4, 14);
  Matrix<__half> x(20, 64, 64, 0);
  x.fill_random(15);
  const Matrix<__half> rows(batch.layout.useful_rows, 64, 64, 0), out(20, 64, 64, 0);
  const DeviceStream stream;
  const CapturedGraph graph(stream, [&] {
    gather(batch.order, x.view(), rows.mutable_view(), 64, stream);
    combine(batch.order, rows.view(), nullptr, out.mutable_view(), 64, false, stream);
  });
  CHECK(graph.nodes() == 2);
  graph.replay();
  const std::vector<float> before = x.values(), after = out.values();
  bool right = true;
  for (std::int64_t t = 0; t < 20; ++t) {
    float kept = 0;
    for (std::int64_t s = 0; s < 4; ++s) kept += batch.row(t, s) >= 0;
    for (std::size_t c = 0; c < 64; ++c) {
      const std::size_t i = static_cast<std::size_t>(t) * 64 + c;
      right = right && close<__half>(after[i], kept * before[i], kept);
    }
  }
  CHECK(right);
}

TEST_CASE("bad permutation arguments are refused", "[small]") {
  const Matrix<float> x(2, 8, 8, 0), rows(4, 8, 8, 0);
  const DeviceBuffer<std::int32_t> array(4);
  const RowOrder order{2, 2, array.data()};
  MutableRowsView target = rows.mutable_view();
  CHECK_THROWS_AS(gather(order, x.view(), target, 9, nullptr), Error);
  CHECK_THROWS_AS(gather(order, {}, target, 8, nullptr), Error);
  CHECK_THROWS_AS(gather({2, 129, array.data()}, x.view(), target, 8, nullptr), Error);
  CHECK_THROWS_AS(gather({2, 2, nullptr}, x.view(), target, 8, nullptr), Error);
  target.type = ElementType::fp16;
  CHECK_THROWS_AS(gather(order, x.view(), target, 8, nullptr), Error);
}
