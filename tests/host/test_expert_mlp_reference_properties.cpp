// What the CPU expert layer promises beside its formulas: what reordering and splitting a batch leave alone,
// the empty and the lopsided batch, rows with gaps, any number of threads, float beside double, and refusals.
#include <omp.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "catch.hpp"
#include "expert_mlp_case.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// What memory holds that nothing has written, or that nothing may read.
constexpr double unset = std::numeric_limits<double>::quiet_NaN();

void require_close(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(a[i] == Approx(b[i]).epsilon(1e-12).margin(1e-12));
}

void require_close(CaseGradients& a, CaseGradients& b) {
  const auto of_a = a.all(), of_b = b.all();
  for (std::size_t which = 0; which < of_a.size(); ++which) {
    INFO("gradient of " << of_a[which].first);
    require_close(*of_a[which].second, *of_b[which].second);
  }
}

CaseGradients backward(const ExpertMlpCase& layer) {
  CaseGradients gradients(layer, unset);
  gradients.add_backward(layer);
  return gradients;
}

/// `values` as rows of `columns`, row i of the result being row order[i].
template <class T>
std::vector<T> reordered(const std::vector<T>& values, const std::vector<std::size_t>& order) {
  const std::size_t columns = values.size() / order.size();
  std::vector<T> result;
  for (const std::size_t row : order)
    for (std::size_t c = 0; c < columns; ++c) result.push_back(values[row * columns + c]);
  return result;
}

bool all_zero(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return value == 0; });
}

ExpertMlpShape separate_tensors() {
  ExpertMlpShape shape;
  shape.tokens = 20;
  shape.up_storage.separate = shape.down_storage.separate = true;
  return shape;
}

}  // namespace

TEST_CASE("the CPU layer gives each token the same bits wherever it stands in the batch", "[reference]") {
  ExpertMlpCase layer(separate_tensors()), shuffled(separate_tensors());
  std::vector<std::size_t> order(20);
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = (7 * i + 3) % order.size();
  for (std::vector<double>* rows : {&shuffled.x, &shuffled.out_gradient, &shuffled.routing_weights})
    *rows = reordered(*rows, order);
  shuffled.ids = reordered(layer.ids, order);
  CHECK(shuffled.forward() == reordered(layer.forward(), order));

  CaseGradients gradients = backward(layer), of_shuffled = backward(shuffled);
  CHECK(of_shuffled.x == reordered(gradients.x, order));
  CHECK(of_shuffled.routing_weights == reordered(gradients.routing_weights, order));
  require_close(of_shuffled.up, gradients.up);
  require_close(of_shuffled.down_bias, gradients.down_bias);
}

TEST_CASE("the CPU layer does not mind in which order the experts are numbered", "[reference]") {
  ExpertMlpCase layer(separate_tensors()), renumbered(separate_tensors());
  const std::vector<std::size_t> order{2, 0, 1};  // new number to old
  for (Experts* experts : {&renumbered.up, &renumbered.down})
    experts->first_pointers = reordered(experts->first_pointers, order);
  renumbered.up.weights.first.matrices = renumbered.up.first_pointers;
  renumbered.down.weights.first.matrices = renumbered.down.first_pointers;
  renumbered.up_bias = reordered(layer.up_bias, order);
  renumbered.down_bias = reordered(layer.down_bias, order);
  for (std::int32_t& id : renumbered.ids)
    if (id >= 0) id = (id + 1) % 3;
  CHECK(renumbered.forward() == layer.forward());

  CaseGradients gradients = backward(layer), of_renumbered = backward(renumbered);
  for (std::vector<double>* gradient :
       {&gradients.up, &gradients.down, &gradients.up_bias, &gradients.down_bias})
    *gradient = reordered(*gradient, order);
  require_close(of_renumbered, gradients);
}

TEST_CASE("the CPU layer does not mind in which slot an expert stands", "[reference]") {
  ExpertMlpShape shape = separate_tensors();
  shape.top_k = 3;
  ExpertMlpCase layer(shape), reversed(shape);
  std::vector<std::size_t> order;
  for (std::size_t token = 0; token < 20; ++token)
    for (const std::size_t slot : {2U, 1U, 0U}) order.push_back(token * 3 + slot);
  reversed.ids = reordered(layer.ids, order);
  reversed.routing_weights = reordered(layer.routing_weights, order);
  require_close(reversed.forward(), layer.forward());

  CaseGradients gradients = backward(layer), of_reversed = backward(reversed);
  gradients.routing_weights = reordered(gradients.routing_weights, order);
  require_close(of_reversed, gradients);
}

TEST_CASE("micro-batches accumulate to the gradients of the whole batch", "[reference]") {
  for (const bool two_tensors : {false, true}) {
    ExpertMlpShape shape = separate_tensors();
    shape.up_storage.two_tensors = two_tensors;
    ExpertMlpCase layer(shape);
    CaseGradients whole = backward(layer), parts(layer, unset);
    for (const std::int64_t begin : {0, 3, 12}) {
      const std::int64_t end = begin == 0   ? 3
                               : begin == 3 ? 12
                                            : 20,
                         d_model = shape.d_model, first = begin * 2;
      const HostExpertMlpBatch<double> batch{
          end - begin,
          2,
          {layer.ids.data() + first, static_cast<std::size_t>((end - begin) * 2)},
          layer.routing_weights.data() + first,
          {layer.x.data() + begin * d_model, d_model}};
      HostExpertMlpGradients<double> gradients = parts.view(layer);
      gradients.x.data += begin * d_model;
      gradients.routing_weights += first;
      layer.options.accumulate = begin > 0;
      reference_expert_mlp_backward(layer.mlp(), batch,
                                    {layer.out_gradient.data() + begin * d_model, d_model}, gradients,
                                    layer.options);
    }
    require_close(parts, whole);
  }
}

TEST_CASE("the CPU layer takes batches without tokens and without routed tokens", "[reference]") {
  ExpertMlpShape shape;
  for (const std::int64_t tokens : {0, 5}) {
    shape.tokens = tokens;
    ExpertMlpCase layer(shape);
    layer.ids.assign(layer.ids.size(), -1);
    CHECK(all_zero(layer.forward(unset)));
    CaseGradients gradients = backward(layer);
    for (const auto& [name, values] : gradients.all()) {
      INFO("gradient of " << name << " with " << tokens << " tokens");
      CHECK(all_zero(*values));
    }
    layer.options.accumulate = true;
    CHECK(layer.forward(0.5) == std::vector<double>(static_cast<std::size_t>(tokens * shape.d_model), 0.5));
    CaseGradients kept(layer, 0.5);
    kept.add_backward(layer);
    CHECK(kept.up == std::vector<double>(kept.up.size(), 0.5));
    CHECK(kept.down_bias == std::vector<double>(kept.down_bias.size(), 0.5));
    CHECK(all_zero(kept.x));
  }
}

TEST_CASE("where one expert has every token, the others get zero gradients", "[reference]") {
  ExpertMlpShape shape;
  shape.top_k = 1;
  shape.weight_place = RoutingWeightPlace::input;
  ExpertMlpCase layer(shape);
  layer.ids.assign(layer.ids.size(), 1);
  CaseGradients gradients = backward(layer);
  for (const std::vector<double>* values :
       {&gradients.up, &gradients.down, &gradients.up_bias, &gradients.down_bias}) {
    const auto third = static_cast<std::ptrdiff_t>(values->size() / 3);
    CHECK(all_zero({values->begin(), values->begin() + third}));
    CHECK_FALSE(all_zero({values->begin() + third, values->end() - third}));
    CHECK(all_zero({values->end() - third, values->end()}));
  }
}

TEST_CASE("the CPU layer gives the same bits on any number of threads", "[reference]") {
  ExpertMlpShape shape;
  shape.tokens = 150;
  shape.d_model = 24;
  shape.d_ff = {40, 40, 40, 40, 40};
  ExpertMlpCase layer(shape);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<double> out = layer.forward();
  CaseGradients gradients = backward(layer);
  for (const int several : {2, 5}) {
    omp_set_num_threads(several);
    CHECK(layer.forward() == out);
    CaseGradients again = backward(layer);
    for (std::size_t which = 0; which < gradients.all().size(); ++which)
      CHECK(*again.all()[which].second == *gradients.all()[which].second);
  }
  omp_set_num_threads(threads);
}

TEST_CASE("the CPU layer in float is the one in double to float's accuracy", "[reference]") {
  const ExpertMlpCase layer({});
  const auto to_float = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  const auto up = to_float(layer.up.memory[0]), down = to_float(layer.down.memory[0]),
             up_bias = to_float(layer.up_bias), down_bias = to_float(layer.down_bias), x = to_float(layer.x),
             routing_weights = to_float(layer.routing_weights), out_gradient = to_float(layer.out_gradient);
  const std::int64_t d_model = layer.shape.d_model;
  HostExpertMlp<float> mlp;
  for (auto [weights, from, data] : {std::tuple{&mlp.up, &layer.up.weights, up.data()},
                                     std::tuple{&mlp.down, &layer.down.weights, down.data()}}) {
    weights->experts = from->experts;
    weights->k = from->k;
    weights->n = from->n;
    weights->leading_dimension = from->leading_dimension;
    weights->first = {data, from->first.expert_stride, {}};
  }
  mlp.up_bias = up_bias.data();
  mlp.down_bias = down_bias.data();
  const HostExpertMlpBatch<float> batch{
      layer.shape.tokens, layer.shape.top_k, layer.ids, routing_weights.data(), {x.data(), d_model}};
  std::vector<float> out(x.size()), x_gradient(x.size());
  reference_expert_mlp_forward(mlp, batch, {out.data(), d_model}, layer.options);
  HostExpertMlpGradients<float> gradients;
  gradients.x = {x_gradient.data(), d_model};
  reference_expert_mlp_backward(mlp, batch, {out_gradient.data(), d_model}, gradients, layer.options);

  const std::vector<double> expected = layer.forward();
  const CaseGradients expected_gradients = backward(layer);
  for (std::size_t i = 0; i < out.size(); ++i) {
    CHECK(static_cast<double>(out[i]) == Approx(expected[i]).margin(1e-5));
    CHECK(static_cast<double>(x_gradient[i]) == Approx(expected_gradients.x[i]).margin(1e-5));
  }
}

TEST_CASE("the CPU layer over rows skips the gaps between experts", "[reference]") {
  ExpertMlpShape shape;
  shape.top_k = 1;
  shape.tokens = 6;
  ExpertMlpCase layer(shape);
  layer.ids = {0, 0, 0, 2, 2, 2};
  const std::vector<double> expected = layer.forward();
  CaseGradients expected_gradients = backward(layer);

  // The same rows with a gap of one row before each expert.
  const std::vector<std::int64_t> row_begin{1, 4, 5}, row_count{3, 0, 3};
  const std::vector<std::size_t> row_of_token{1, 2, 3, 5, 6, 7};
  const std::size_t d_model = 4, rows = 8;
  const auto spread = [&](const std::vector<double>& values) {
    const std::size_t columns = values.size() / 6;
    std::vector<double> result(rows * columns, unset);
    for (std::size_t token = 0; token < 6; ++token)
      std::copy_n(&values[token * columns], columns, &result[row_of_token[token] * columns]);
    return result;
  };
  const std::vector<double> x = spread(layer.x), weights = spread(layer.routing_weights),
                            y_gradient = spread(layer.out_gradient);
  const HostExpertMlpRows<double> batch{{row_begin, row_count}, weights.data(), {x.data(), 4}};
  std::vector<double> y(rows * d_model, 7), x_gradient(rows * d_model, 7), weight_gradient(rows, 7);
  reference_expert_mlp_rows_forward(layer.mlp(), batch, {y.data(), 4}, layer.options);
  CaseGradients computed(layer, unset);
  HostExpertMlpGradients<double> gradients = computed.view(layer);
  gradients.x = {x_gradient.data(), 4};
  gradients.routing_weights = weight_gradient.data();
  reference_expert_mlp_rows_backward(layer.mlp(), batch, {y_gradient.data(), 4}, gradients, layer.options);

  const auto check_rows = [&](const std::vector<double>& of_rows, const std::vector<double>& of_tokens) {
    std::vector<double> spread_tokens = spread(of_tokens);
    for (double& value : spread_tokens)
      if (std::isnan(value)) value = 7;
    CHECK(of_rows == spread_tokens);
  };
  check_rows(y, expected);
  check_rows(x_gradient, expected_gradients.x);
  check_rows(weight_gradient, expected_gradients.routing_weights);
  computed.x = expected_gradients.x;
  computed.routing_weights = expected_gradients.routing_weights;
  require_close(computed, expected_gradients);
}

TEST_CASE("the CPU layer refuses operands that do not fit together", "[reference]") {
  ExpertMlpCase layer({});
  std::vector<double> out(layer.x.size());
  CaseGradients memory(layer);
  HostExpertMlp<double> mlp = layer.mlp();
  HostExpertMlpBatch<double> batch = layer.batch();
  HostExpertMlpGradients<double> gradients = memory.view(layer);
  const auto run = [&] {
    reference_expert_mlp_forward(mlp, batch, {out.data(), 4}, layer.options);
    reference_expert_mlp_backward(mlp, batch, {layer.out_gradient.data(), 4}, gradients, layer.options);
  };
  CHECK_NOTHROW(run());
  SECTION("a kind that the widths deny") { mlp.kind = MlpKind::linear2; }
  SECTION("an activation that the kind has not") {
    mlp.activation.function = ActivationFunction::relu_squared;
  }
  SECTION("experts of one tensor") { mlp.down.experts = 2; }
  SECTION("another d_model") { mlp.down.n = 5; }
  SECTION("widths of one tensor") { mlp.down.d_ff = layer.down.widths; }
  SECTION("no routing weights") { batch.routing_weights = nullptr; }
  SECTION("routing weights without a place") {
    layer.options.weight_place = RoutingWeightPlace::none;
    gradients.routing_weights = nullptr;
  }
  SECTION("an id that no expert has") { layer.ids[0] = 3; }
  SECTION("fewer ids than assignments") { batch.tokens = 6; }
  SECTION("no slots") { batch.top_k = 0; }
  SECTION("a gradient of another shape") { gradients.down.m = 5; }
  SECTION("a second gradient of one tensor") { gradients.up_second = gradients.up; }
  CHECK_THROWS_AS(run(), Error);
}

TEST_CASE("the CPU layer refuses a gradient of routing weights that there are not", "[reference]") {
  ExpertMlpShape shape;
  shape.weight_place = RoutingWeightPlace::none;
  ExpertMlpCase layer(shape);
  CaseGradients memory(layer);
  HostExpertMlpGradients<double> gradients = memory.view(layer);
  gradients.routing_weights = memory.x.data();
  CHECK_THROWS_AS(
      reference_expert_mlp_backward(layer.mlp(), layer.batch(), {layer.out_gradient.data(), shape.d_model},
                                    gradients, layer.options),
      Error);
}
