// Episodes of the expert layer, forward and backward, from tokens and from rows.
#include <cmath>

#include "chaos_episode.hpp"
#include "expert_mlp_rows_case.hpp"

namespace dropless::test {
namespace {

ElementType draw_type(Random& random) { return draw_bool(random) ? ElementType::bf16 : ElementType::fp16; }

Storage draw_storage(Random& random, bool may_be_two, bool may_be_separate) {
  return {draw_bool(random) ? WeightOrder::k_by_n : WeightOrder::n_by_k, may_be_two && draw_bool(random),
          may_be_separate && draw_bool(random), draw(random, 0, 1) * draw(random, 1, 8)};
}

/// Wide enough, the first expert always, for relative errors to be of many roundings, not the worst of a few.
ExpertMlpShape draw_shape(Random& random) {
  const ActivationFunction functions[] = {ActivationFunction::silu, ActivationFunction::gelu_erf,
                                          ActivationFunction::gelu_tanh};
  ExpertMlpShape shape;
  shape.kind = draw_bool(random) ? MlpKind::glu : MlpKind::linear2;
  shape.activation.function = functions[draw(random, 0, 2)];
  shape.weight_place = static_cast<RoutingWeightPlace>(draw(random, 0, 2));
  shape.biases = draw_bool(random);
  shape.tokens = draw(random, 24, 60);
  shape.d_model = draw_bool(random) ? 8 * draw(random, 5, 10) : draw(random, 40, 80);
  const std::int64_t experts = draw(random, 1, 5);
  shape.top_k = draw(random, 1, std::min<std::int64_t>(experts, 3));
  const bool equal_widths = draw_bool(random);
  shape.d_ff.assign(static_cast<std::size_t>(experts), 8 * draw(random, 5, 10));
  if (!equal_widths)
    for (std::size_t e = 1; e < shape.d_ff.size(); ++e) shape.d_ff[e] = draw(random, 0, 80);
  shape.up_storage = draw_storage(random, shape.kind == MlpKind::glu, equal_widths);
  shape.down_storage = draw_storage(random, false, equal_widths);
  shape.seed = draw_seed(random);
  return shape;
}

/// What ExpertMlpRowsCase is for rows.
struct ExpertMlpTokensCase {
  ExpertMlpTokensCase(const ExpertMlpShape& shape, ElementType type, ElementType gradient_type,
                      std::int64_t pad)
      : host(shape), layer(host, type, gradient_type, pad) {}

  ExpertMlpBatch batch() const { return layer.batch(); }
  NamedValues results() const { return layer.results(); }
  NamedValues expected() const { return layer.expected(); }

  ExpertMlpCase host;
  DeviceLayer layer;
};

std::unique_ptr<ExpertMlpTokensCase> tokens_case(Random& random) {
  const ElementType type = draw_type(random), gradient_type = draw_bool(random) ? type : ElementType::fp32;
  const std::int64_t pad = draw(random, 0, 1) * draw(random, 1, 8);
  return std::make_unique<ExpertMlpTokensCase>(draw_shape(random), type, gradient_type, pad);
}

std::unique_ptr<ExpertMlpRowsCase> rows_case(Random& random) {
  ExpertMlpShape shape = draw_shape(random);
  std::vector<std::int32_t> begin, count;
  std::int32_t end = 0;
  for (std::size_t e = 0; e < shape.d_ff.size(); ++e) {
    begin.push_back(end + static_cast<std::int32_t>(draw(random, 0, 3)));
    count.push_back(e > 0 && draw_bool(random) ? 0 : static_cast<std::int32_t>(draw(random, 20, 50)));
    end = begin.back() + count.back();
  }
  shape.tokens = end + draw(random, 0, 5);
  shape.top_k = 1;
  return std::make_unique<ExpertMlpRowsCase>(shape, draw_type(random), begin, count);
}

/// One wrong number in what a batch has besides x and weights.
void spoil(ExpertMlpBatch& batch, Random& random) {
  switch (draw(random, 0, 2)) {
    case 0:
      batch.bounds.top_k = draw_bool(random) ? 0 : 129;
      break;
    case 1:
      batch.bounds.experts += 1;
      break;
    default:
      batch.bounds.tokens = -1;
      break;
  }
}
void spoil(ExpertMlpRows& batch, Random& random) {
  switch (draw(random, 0, 2)) {
    case 0:
      batch.rows.tile_bound += 1;
      break;
    case 1:
      batch.rows.experts += 1;
      break;
    default:
      batch.rows.row_count = nullptr;
      break;
  }
}

template <class Entry, class Case>
class LayerEpisode : public ChaosEpisode {
 public:
  LayerEpisode(std::unique_ptr<Case> of, const LayerWay& way)
      : case_(std::move(of)),
        options_(case_->layer.options(way)),
        memory_(case_->layer, case_->batch(), options_) {}

  void call(Stream stream) override {
    const DeviceLayer& layer = case_->layer;
    memory_.run_forward(layer, case_->batch(), layer.out(), options_, stream);
    memory_.run_backward(layer, case_->batch(), layer.out_gradient(), layer.gradients(), options_, stream);
  }

  void wrong_call(Random& random, Stream stream) const override {
    const DeviceLayer& layer = case_->layer;
    ExpertMlp mlp = layer.mlp();
    typename Entry::Batch batch = case_->batch();
    MutableRowsView out = layer.out();
    ExpertMlpGradients gradients = layer.gradients();
    ExpertMlpOptions options = options_;
    DeviceMemory saved = memory_.view(memory_.saved), workspace = memory_.view(memory_.backward);
    bool forward = draw_bool(random);
    switch (draw(random, 0, 15)) {
      case 0:
        mlp.down.experts += 1;
        break;
      case 1:
        mlp.up.n += 1;
        break;
      case 2:
        mlp.up.leading_dimension = 0;
        break;
      case 3:
        mlp.down.type = mlp.up.type == ElementType::bf16 ? ElementType::fp16 : ElementType::bf16;
        break;
      case 4:
        batch.x.leading_dimension = mlp.up.k - 1;
        break;
      case 5:
        batch.x.type = ElementType::fp32;
        break;
      case 6:
        options.sm_limit = -1;
        break;
      case 7:
        options.output_scale = NAN;
        break;
      case 8:
        options.weight_place = options.weight_place == RoutingWeightPlace::none ? RoutingWeightPlace::input
                                                                                : RoutingWeightPlace::none;
        break;
      case 9:
        saved.bytes -= 1;
        break;
      case 10:
        forward = true;
        out.data = nullptr;
        break;
      case 11:
        forward = true;
        out.data = const_cast<void*>(batch.x.data);
        break;
      case 12:
        forward = false;
        saved.data = nullptr;
        break;
      case 13:
        forward = false;
        workspace.bytes -= 1;
        break;
      case 14:
        forward = false;
        gradients.down.m += 1;
        break;
      default:
        spoil(batch, random);
        break;
    }
    if (forward)
      Entry::forward(mlp, batch, out, options, saved, memory_.view(memory_.forward), stream);
    else
      Entry::backward(mlp, batch, layer.out_gradient(), gradients, options, saved, workspace, stream);
  }

  void require_right() override {
    require_close(case_->results(), case_->expected(), case_->layer.type);
    REQUIRE((case_->layer.guards_intact() && memory_.guards_intact()));
  }

 private:
  std::unique_ptr<Case> case_;
  ExpertMlpOptions options_;
  MemoryOfLayer<Entry> memory_;
};

const LayerWay& draw_way(Random& random) { return layer_ways[draw(random, 0, 2)]; }

}  // namespace

std::unique_ptr<ChaosEpisode> layer_episode(Random& random) {
  return std::make_unique<LayerEpisode<LayerFromTokens, ExpertMlpTokensCase>>(tokens_case(random),
                                                                              draw_way(random));
}

std::unique_ptr<ChaosEpisode> layer_rows_episode(Random& random) {
  return std::make_unique<LayerEpisode<LayerFromRows, ExpertMlpRowsCase>>(rows_case(random),
                                                                          draw_way(random));
}

}  // namespace dropless::test
