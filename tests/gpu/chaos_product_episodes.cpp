// Episodes of the expert products and of the block-sparse dsd.
#include "chaos_episode.hpp"

#include "accuracy.hpp"
#include "matrix_fixtures.hpp"
#include "product_case.hpp"

namespace dropless::test {
namespace {

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
      : rows_(random_rows(random)), product_(rows_.view(), random_shape(random), more..., draw_seed(random)) {
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
        a_(type, block_, m_, k_, draw_bool(random), 0.4, Fill::random, draw_seed(random)),
        b_(type, k_, n_, draw_bool(random), draw(random, 0, 3), Fill::random, draw_seed(random)),
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

std::unique_ptr<ChaosEpisode> product_episode(Random& random) {
  if (draw_bool(random)) return std::make_unique<ProductEpisode<RowsByWeightsCase>>(random);
  return std::make_unique<ProductEpisode<WeightGradientCase>>(random, ElementType::fp32);
}

std::unique_ptr<ChaosEpisode> block_sparse_episode(Random& random) {
  return std::make_unique<BlockSparseEpisode>(random);
}

}  // namespace dropless::test
