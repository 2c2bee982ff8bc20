// What the CPU products and the CPU layer refuse: a valid call, one operand of it spoiled, and the argument
// that the error names.
#include <functional>

#include "catch.hpp"
#include "dropless/block_sparse_reference.hpp"
#include "expert_mlp_case.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// Two experts of 4 x 6, three rows.
struct ProductOperands {
  std::vector<std::int64_t> begin{0, 1}, count{1, 2};
  std::vector<double> x = std::vector<double>(3 * 4), h = std::vector<double>(3 * 6),
                      memory = std::vector<double>(2 * 4 * 6);
  std::vector<const double*> pointers{memory.data(), memory.data() + 24};
  HostExpertWeights<double> weights{
      2, 4, 6, WeightOrder::k_by_n, 6, {memory.data(), 24, {}}, {nullptr, 0, {}}, {}, {}};
  HostRowsView<const double> in{x.data(), 4};
  HostRowsView<double> out{h.data(), 6};
  HostExpertGradients<double> dw{2, 4, 6, 6, 24, memory.data()};
};

std::string refused_product(const std::function<void(ProductOperands&)>& spoil) {
  ProductOperands of;
  spoil(of);
  return refused_argument([&] { reference_sdd({of.begin, of.count}, of.in, of.weights, of.out); });
}
std::string refused_gradient(const std::function<void(ProductOperands&)>& spoil) {
  ProductOperands of;
  spoil(of);
  return refused_argument([&] {
    reference_weight_gradient({of.begin, of.count}, of.in, {of.out.data, of.out.leading_dimension}, of.dw);
  });
}

struct LayerOperands {
  explicit LayerOperands(const ExpertMlpShape& shape) : host(shape), memory(host) {}
  ExpertMlpCase host;
  CaseGradients memory;
  std::vector<double> values = std::vector<double>(host.x.size());
  HostExpertMlp<double> mlp = host.mlp();
  HostExpertMlpBatch<double> batch = host.batch();
  HostRowsView<double> out{values.data(), 4};
  HostRowsView<const double> out_gradient{host.out_gradient.data(), 4};
  HostExpertMlpGradients<double> gradients = memory.view(host);
};

std::string refused_layer(const std::function<void(LayerOperands&)>& spoil) {
  LayerOperands of({});
  spoil(of);
  return refused_argument([&] {
    reference_expert_mlp_forward(of.mlp, of.batch, of.out, of.host.options);
    reference_expert_mlp_backward(of.mlp, of.batch, of.out_gradient, of.gradients, of.host.options);
  });
}

std::string refused_rows(const std::function<void(HostExpertMlpRows<double>&, LayerOperands&)>& spoil) {
  LayerOperands of({});
  const std::vector<std::int64_t> begin{0, 1, 1}, count{1, 0, 4};
  HostExpertMlpRows<double> batch{{begin, count}, of.host.routing_weights.data(), of.batch.x};
  of.gradients.routing_weights = nullptr;
  spoil(batch, of);
  return refused_argument([&] {
    reference_expert_mlp_rows_forward(of.mlp, batch, of.out, of.host.options);
    reference_expert_mlp_rows_backward(of.mlp, batch, of.out_gradient, of.gradients, of.host.options);
  });
}

}  // namespace

TEST_CASE("the CPU products name the operand that is wrong", "[reference]") {
  CHECK(refused_product([](auto&) {}) == "nothing");
  CHECK(refused_product([](auto& p) { p.in.data = nullptr; }) == "the input.data");
  CHECK(refused_product([](auto& p) { p.in.leading_dimension = 3; }) == "the input.leading_dimension");
  CHECK(refused_product([](auto& p) { p.out.data = nullptr; }) == "the output.data");
  CHECK(refused_product([](auto& p) { p.out.leading_dimension = 5; }) == "the output.leading_dimension");
  CHECK(refused_product([](auto& p) { p.out = {p.memory.data(), 6}; }) == "the output");
  CHECK(refused_product([](auto& p) { p.count[1] = -1; }) == "row_count of expert 1");
  CHECK(refused_product([](auto& p) { p.begin[0] = -1; }) == "row_begin of expert 0");
  CHECK(refused_product([](auto& p) { p.begin.pop_back(); }) == "the size of row_begin");
  // Without rows nothing of them is read.
  CHECK(refused_product([](auto& p) {
          p.count = {0, 0};
          p.in.data = nullptr;
          p.out.data = nullptr;
        }) == "nothing");
}

TEST_CASE("the CPU products name what is wrong with the weights", "[reference]") {
  const auto separate = [](ProductOperands& p) { p.weights.first = {nullptr, 0, p.pointers}; };
  CHECK(refused_product([](auto& p) { p.weights.first.data = nullptr; }) == "weights.first.data");
  CHECK(refused_product([](auto& p) { p.weights.first.expert_stride = -24; }) ==
        "weights.first.expert_stride");
  CHECK(refused_product([](auto& p) { p.weights.leading_dimension = 5; }) ==
        "weights.first.leading_dimension");
  CHECK(refused_product([](auto& p) { p.weights.k = -1; }) == "weights.k");
  CHECK(refused_product(separate) == "nothing");
  CHECK(refused_product([&](auto& p) {
          separate(p);
          p.pointers[1] = nullptr;
        }) == "weights.first.matrices[1]");
  CHECK(refused_product([&](auto& p) {
          p.pointers.pop_back();
          separate(p);
        }) == "the size of weights.first.matrices");
  const std::vector<std::int64_t> widths{6, 4}, begins{0, 6}, before{-1, 6};
  const auto stacked = [&](ProductOperands& p, const std::vector<std::int64_t>& d_ff_begin) {
    p.weights.d_ff = widths;
    p.weights.d_ff_begin = d_ff_begin;
    p.weights.leading_dimension = 10;
  };
  CHECK(refused_product([&](auto& p) { stacked(p, begins); }) == "nothing");
  CHECK(refused_product([&](auto& p) { stacked(p, before); }) == "d_ff_begin of expert 0");
  CHECK(refused_product([&](auto& p) { stacked(p, {}); }) == "the size of weights.d_ff_begin");
  CHECK(refused_product([&](auto& p) {
          stacked(p, begins);
          p.weights.leading_dimension = 9;
        }) == "weights.first.leading_dimension");
}

TEST_CASE("the CPU weight gradient names the operand that is wrong", "[reference]") {
  CHECK(refused_gradient([](auto&) {}) == "nothing");
  CHECK(refused_gradient([](auto& p) { p.in.leading_dimension = 3; }) == "a.leading_dimension");
  CHECK(refused_gradient([](auto& p) { p.out.data = nullptr; }) == "b.data");
  CHECK(refused_gradient([](auto& p) { p.dw.data = nullptr; }) == "dw.data");
  CHECK(refused_gradient([](auto& p) { p.dw.leading_dimension = 5; }) == "dw.leading_dimension");
  CHECK(refused_gradient([](auto& p) { p.dw.expert_stride = 23; }) == "dw.expert_stride");
  CHECK(refused_gradient([](auto& p) { p.dw.data = p.h.data(); }) == "dw");
}

TEST_CASE("the CPU block-sparse products name the operand that is wrong", "[reference]") {
  const BlockTopology topology = topology_of_pattern(16, 2, {0, 1}, {1});
  std::vector<double> values(16 * 16), b(32 * 3), out(16 * 3);
  using Sparse = HostBlockSparseMatrix<const double>;
  const auto refused_dsd = [&](const std::function<void(Sparse&, HostDenseMatrix<const double>&,
                                                        HostDenseMatrix<double>&)>& spoil) {
    Sparse sparse{&topology, values.data()};
    HostDenseMatrix<const double> dense{b.data(), 32, 3, 3};
    HostDenseMatrix<double> product{out.data(), 16, 3, 3};
    spoil(sparse, dense, product);
    return refused_argument([&] { reference_dsd(sparse, dense, product); });
  };
  CHECK(refused_dsd([](auto&, auto&, auto&) {}) == "nothing");
  CHECK(refused_dsd([](auto& sparse, auto&, auto&) { sparse.topology = nullptr; }) == "a.topology");
  CHECK(refused_dsd([](auto& sparse, auto&, auto&) { sparse.values = nullptr; }) == "a.values");
  CHECK(refused_dsd([](auto&, auto& dense, auto&) { dense.data = nullptr; }) == "b.data");
  CHECK(refused_dsd([](auto&, auto& dense, auto&) { dense.leading_dimension = 2; }) == "b.leading_dimension");
  CHECK(refused_dsd([](auto&, auto& dense, auto&) { dense.rows = -1; }) == "b.rows");
  CHECK(refused_dsd([](auto&, auto& dense, auto&) { dense.rows = 16; }) == "b");
  CHECK(refused_dsd([](auto&, auto&, auto& product) { product.data = nullptr; }) == "out.data");
  CHECK(refused_dsd([&](auto&, auto&, auto& product) { product.data = values.data(); }) == "out");
  CHECK(refused_argument([&] {
          reference_to_dense(Sparse{&topology, values.data()}, {nullptr, 16, 32, 32});
        }) == "out.data");
}

TEST_CASE("the CPU layer names the operand that is wrong", "[reference]") {
  CHECK(refused_layer([](auto&) {}) == "nothing");
  CHECK(refused_layer([](auto& l) { l.batch.x.data = nullptr; }) == "batch.x.data");
  CHECK(refused_layer([](auto& l) { l.batch.x.leading_dimension = 3; }) == "batch.x.leading_dimension");
  CHECK(refused_layer([](auto& l) { l.batch.routing_weights = nullptr; }) == "batch.routing_weights");
  CHECK(refused_layer([](auto& l) { l.mlp.up.first.data = nullptr; }) == "mlp.up.first.data");
  CHECK(refused_layer([](auto& l) { l.mlp.down.leading_dimension = 1; }) ==
        "mlp.down.first.leading_dimension");
  CHECK(refused_layer([](auto& l) { l.out.data = nullptr; }) == "out.data");
  CHECK(refused_layer([](auto& l) { l.out.data = l.host.x.data(); }) == "out");
  CHECK(refused_layer([](auto& l) { l.out_gradient.leading_dimension = 3; }) ==
        "out_gradient.leading_dimension");
  CHECK(refused_layer([](auto& l) { l.gradients.x.leading_dimension = 3; }) ==
        "gradients.x.leading_dimension");
  CHECK(refused_layer([](auto& l) { l.gradients.down.data = l.memory.up.data(); }) == "gradients.down");
  CHECK(refused_layer([](auto& l) { l.gradients.up_bias = l.host.up_bias.data(); }) == "gradients.up_bias");
}

TEST_CASE("the CPU layer over rows names the operand that is wrong", "[reference]") {
  CHECK(refused_rows([](auto&, auto&) {}) == "nothing");
  CHECK(refused_rows([](auto& batch, auto&) { batch.x.data = nullptr; }) == "rows.x.data");
  CHECK(refused_rows([](auto& batch, auto&) { batch.row_weights = nullptr; }) == "rows.row_weights");
  CHECK(refused_rows([](auto& batch, auto&) { batch.rows.row_count = {}; }) == "the size of row_count");
  CHECK(refused_rows([](auto&, auto& l) { l.out.leading_dimension = 3; }) == "y.leading_dimension");
  CHECK(refused_rows([](auto&, auto& l) { l.out_gradient.data = nullptr; }) == "y_gradient.data");
}
