// The episodes: random small shapes, wrong calls that differ from the right one in one argument.
#include "chaos_episode.hpp"

#include <cmath>

#include "accuracy.hpp"
#include "built_topology.hpp"
#include "dropless/permutation.hpp"
#include "matrix_fixtures.hpp"
#include "product_case.hpp"
#include "random_values.hpp"
#include "routing.hpp"

namespace dropless::test {
namespace {

std::uint32_t seed_of(Random& random) { return static_cast<std::uint32_t>(draw(random, 1, 1'000'000)); }

class RoutingEpisode : public ChaosEpisode {
 public:
  explicit RoutingEpisode(Random& random)
      : tokens_(draw(random, 1, 200)),
        top_k_(draw(random, 1, 6)),
        columns_(draw(random, 1, 90)),
        ids_(random_expert_ids(tokens_, static_cast<int>(top_k_), static_cast<int>(draw(random, 6, 70)),
                               seed_of(random), 1, 10)),
        fixture_(ids_, {tokens_, top_k_, draw(random, 6, 70), {}}),
        x_host_(random_values<float>(tokens_ * columns_, seed_of(random))),
        weights_host_(random_values<float>(tokens_ * top_k_, seed_of(random))),
        x_(x_host_),
        weights_(weights_host_),
        rows_(static_cast<std::size_t>(tokens_ * top_k_ * columns_)),
        out_(static_cast<std::size_t>(tokens_ * columns_)) {}

  void call(Stream stream) override {
    topology_ = fixture_.build(stream);
    gather(topology_.row_order(), view(x_), mutable_view(rows_), columns_, stream);
    combine(topology_.row_order(), view(rows_), weights_.data(), mutable_view(out_), columns_, false, stream);
  }

  void wrong_call(Random& random, Stream stream) const override {
    const auto& f = fixture_;
    TopologyBounds bounds = f.bounds;
    RouterIds ids = f.router;
    std::size_t metadata = f.metadata.size(), workspace = f.workspace.size(), shift = 0;
    RowOrder order{tokens_, top_k_, f.ids.data()};
    RowsView x = view(x_);
    MutableRowsView rows = mutable_view(rows_);
    switch (draw(random, 0, 11)) {
      case 0:
        if (workspace == 0)
          metadata = 0;
        else
          workspace = static_cast<std::size_t>(draw(random, 0, static_cast<std::int64_t>(workspace) - 1));
        break;
      case 1:
        metadata -= 1;
        break;
      case 2:
        shift = 4;
        break;
      case 3:
        bounds.top_k = draw_bool(random) ? 0 : 129;
        break;
      case 4:
        bounds.experts = draw_bool(random) ? 0 : 4097;
        break;
      case 5:
        ids.data = nullptr;
        break;
      case 6:
        bounds.tokens = -1;
        break;
      case 7:
        x.leading_dimension = columns_ - 1;
        return gather(order, x, rows, columns_, stream);
      case 8:
        rows.type = ElementType::bf16;
        return gather(order, x, rows, columns_, stream);
      case 9:
        order.top_k = 0;
        return gather(order, x, rows, columns_, stream);
      case 10:
        rows.data = nullptr;
        return gather(order, x, rows, columns_, stream);
      default:
        order.assignment_to_row = nullptr;
        return gather(order, x, rows, columns_, stream);
    }
    build_topology(ids, bounds, f.metadata.data() + shift, metadata, f.workspace.data(), workspace, stream);
  }

  void require_right() override {
    require_equal(download(topology_), reference_topology(ids_, fixture_.bounds));
    const std::vector<std::int32_t> row_of = download(topology_.assignment_to_row, ids_.size());
    const std::vector<float> rows = rows_.download(), out = out_.download();
    std::size_t wrong_rows = 0, wrong_sums = 0;
    for (std::int64_t token = 0; token < tokens_; ++token)
      for (std::int64_t column = 0; column < columns_; ++column) {
        const float x = x_host_[static_cast<std::size_t>(token * columns_ + column)];
        double sum = 0, magnitude = 0;
        for (std::int64_t slot = 0; slot < top_k_; ++slot) {
          const auto assignment = static_cast<std::size_t>(token * top_k_ + slot);
          if (row_of[assignment] < 0) continue;
          wrong_rows += rows[static_cast<std::size_t>(row_of[assignment] * columns_ + column)] != x;
          sum += static_cast<double>(weights_host_[assignment]) * x;
          magnitude += std::abs(static_cast<double>(weights_host_[assignment]) * x);
        }
        const float actual = out[static_cast<std::size_t>(token * columns_ + column)];
        wrong_sums += !(std::abs(actual - sum) <= 1e-5 * magnitude);
      }
    const auto useful = static_cast<std::size_t>(download(topology_.status, 1)[0].useful_rows * columns_);
    for (std::size_t i = useful; i < rows.size(); ++i) wrong_rows += !std::isnan(rows[i]);
    REQUIRE(wrong_rows == 0);
    REQUIRE(wrong_sums == 0);
    REQUIRE(fixture_.guards_intact());
    REQUIRE(
        (x_.guards_intact() && weights_.guards_intact() && rows_.guards_intact() && out_.guards_intact()));
    REQUIRE((x_.download() == x_host_ && weights_.download() == weights_host_));
  }

 private:
  RowsView view(const DeviceBuffer<float>& buffer) const {
    return {buffer.data(), columns_, ElementType::fp32};
  }
  MutableRowsView mutable_view(const DeviceBuffer<float>& buffer) const {
    return {buffer.data(), columns_, ElementType::fp32};
  }

  std::int64_t tokens_, top_k_, columns_;
  std::vector<std::int32_t> ids_;
  TopologyFixture<std::int32_t> fixture_;
  std::vector<float> x_host_, weights_host_;
  DeviceBuffer<float> x_, weights_, rows_, out_;
  Topology topology_;
};

ProductShape random_shape(Random& random) {
  const ElementType types[] = {ElementType::bf16, ElementType::fp16, ElementType::fp32};
  ProductShape shape;
  shape.k = draw(random, 1, 200);
  shape.n = draw(random, 1, 300);
  shape.type = types[draw(random, 0, 2)];
  shape.d_ff = draw_bool(random) ? DffDimension::n : DffDimension::k;
  shape.order = draw_bool(random) ? WeightOrder::k_by_n : WeightOrder::n_by_k;
  shape.aligned = draw_bool(random);
  shape.pad = draw(random, 0, 3);
  shape.accumulate = draw_bool(random);
  return shape;
}

DeviceRows random_rows(Random& random) {
  std::vector<std::int32_t> begin, count;
  std::int32_t end = 0;
  for (std::int64_t experts = draw(random, 1, 12); experts > 0; --experts) {
    end += static_cast<std::int32_t>(draw(random, 0, 3));  // rows that no expert has
    begin.push_back(end);
    count.push_back(static_cast<std::int32_t>(draw_bool(random) ? draw(random, 0, 8) : draw(random, 0, 200)));
    end += count.back();
  }
  return DeviceRows(begin, count, end + draw(random, 1, 5));
}

void wrong_product(const RowsByWeightsCase& right, Random& random, ProductOptions options, Stream stream);
void wrong_product(const WeightGradientCase& right, Random& random, ProductOptions options, Stream stream);

/// The two product cases differ in their wrong calls alone.
template <class Case>
class ProductEpisode : public ChaosEpisode {
 public:
  template <class... More>
  ProductEpisode(Random& random, More... more)
      : rows_(random_rows(random)), product_(rows_.view(), random_shape(random), more..., seed_of(random)) {
    const bool sm90 = draw_bool(random) && product_.can_run(KernelPath::sm90);
    path_ = sm90 ? KernelPath::sm90 : KernelPath::portable;
    product_.restore_output();
  }
  void call(Stream stream) override { product_.enqueue(path_, stream); }
  void wrong_call(Random& random, Stream stream) const override {
    wrong_product(product_, random, {product_.shape.accumulate, 0, path_}, stream);
  }
  void require_right() override { product_.require_right(); }

 private:
  DeviceRows rows_;
  Case product_;
  KernelPath path_;
};

void wrong_product(const RowsByWeightsCase& right, Random& random, ProductOptions options, Stream stream) {
  ExpertRows rows = right.rows;
  RowsView in = right.in.read();
  ExpertWeights weights = right.weights.view();
  MutableRowsView out = right.out.view();
  switch (draw(random, 0, 9)) {
    case 0:
      in.leading_dimension = weights.k - 1;
      break;
    case 1:
      out.leading_dimension = weights.n - 1;
      break;
    case 2:
      in.type = in.type == ElementType::bf16 ? ElementType::fp16 : ElementType::bf16;
      break;
    case 3:
      weights.experts += 1;
      break;
    case 4:
      weights.k = 0;
      break;
    case 5:
      rows.tile_bound += 1;
      break;
    case 6:
      rows.tile_rule.granule = 0;
      break;
    case 7:
      options.sm_limit = -1;
      break;
    case 8:
      weights.leading_dimension = 0;
      break;
    default:
      rows.row_count = nullptr;
      break;
  }
  if (right.shape.d_ff == DffDimension::n)
    sdd(rows, in, weights, out, options, stream);
  else
    dsd(rows, in, weights, out, options, stream);
}

void wrong_product(const WeightGradientCase& right, Random& random, ProductOptions options, Stream stream) {
  ExpertRows rows = right.rows;
  RowsView a = right.a.read(), b = right.b.read();
  ExpertGradients gradients = right.gradients;
  switch (draw(random, 0, 6)) {
    case 0:
      gradients.leading_dimension = gradients.n - 1;
      break;
    case 1:
      gradients.experts += 1;
      break;
    case 2:
      gradients.m = 0;
      break;
    case 3:
      a.type = a.type == ElementType::bf16 ? ElementType::fp16 : ElementType::bf16;
      break;
    case 4:
      options.sm_limit = -1;
      break;
    case 5:
      gradients.data = nullptr;
      break;
    default:
      rows.row_begin = nullptr;
      break;
  }
  weight_gradient(rows, a, b, gradients, options, stream);
}

class BlockSparseEpisode : public ChaosEpisode {
 public:
  explicit BlockSparseEpisode(Random& random)
      : block_(std::int64_t{16} << draw(random, 0, 3)),
        m_(block_ * draw(random, 1, 4)),
        k_(block_ * draw(random, 1, 4)),
        n_(draw(random, 1, 150)),
        a_(type, block_, m_, k_, draw_bool(random), 0.4, Fill::random, seed_of(random)),
        b_(type, k_, n_, draw_bool(random), draw(random, 0, 3), Fill::random, seed_of(random)),
        out_(type, m_, n_, draw_bool(random), draw(random, 0, 3), Fill::poison, 0) {}

  void call(Stream stream) override { dsd(a_.view(), b_.view(), out_.view(), stream); }

  void wrong_call(Random& random, Stream stream) const override {
    BlockSparseMatrix a = a_.view();
    DenseMatrix b = b_.view(), out = out_.view();
    switch (draw(random, 0, 5)) {
      case 0:
        a.block = 48;
        break;
      case 1:
        b.rows += 1;
        break;
      case 2:
        out.type = ElementType::fp32;
        break;
      case 3:
        out.data = nullptr;
        break;
      case 4:
        b.leading_dimension = b.columns - 1;
        break;
      default:
        out.data = b.data;
        break;
    }
    dsd(a, b, out, stream);
  }

  void require_right() override {
    const DeviceBuffer<double> sums(static_cast<std::size_t>(m_ * n_)), magnitudes(sums.size());
    dense_reference(a_.reference(), b_.reference(), m_, n_, k_, sums.data(), magnitudes.data());
    out_.download();
    const std::vector<double> expected = sums.download(), bounds = magnitudes.download();
    ProductAccuracy accuracy(type);
    for (std::int64_t i = 0; i < m_ * n_; ++i)
      accuracy.add(out_.value(i / n_, i % n_), expected[static_cast<std::size_t>(i)],
                   bounds[static_cast<std::size_t>(i)]);
    REQUIRE(accuracy.elements_past_bound() == 0);
    REQUIRE(out_.surroundings_intact());
    REQUIRE(a_.surroundings_intact());
    REQUIRE(b_.surroundings_intact());
  }

 private:
  static constexpr ElementType type = ElementType::bf16;
  std::int64_t block_, m_, k_, n_;
  DeviceBlockSparse a_;
  DeviceDense b_, out_;
};

}  // namespace

std::unique_ptr<ChaosEpisode> routing_episode(Random& random) {
  return std::make_unique<RoutingEpisode>(random);
}

std::unique_ptr<ChaosEpisode> product_episode(Random& random) {
  if (draw_bool(random)) return std::make_unique<ProductEpisode<RowsByWeightsCase>>(random);
  return std::make_unique<ProductEpisode<WeightGradientCase>>(random, ElementType::fp32);
}

std::unique_ptr<ChaosEpisode> block_sparse_episode(Random& random) {
  return std::make_unique<BlockSparseEpisode>(random);
}

}  // namespace dropless::test
