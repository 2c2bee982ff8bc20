// A layer's experts on the CPU reference, for trying things where there is no GPU: the verbs and the packed
// rows of experts_on_gpu.cu, in float.
#include <algorithm>
#include <cstdio>

#include "dropless/reference.hpp"
#include "dropless/row_layout.hpp"
#include "toy_layer.hpp"

namespace {

using namespace dropless;
using namespace toy;

HostExpertWeights<float> weights_of(const std::vector<float>& data, std::int64_t k, std::int64_t n,
                                    WeightOrder order) {
  HostExpertWeights<float> weights;
  weights.experts = experts;
  weights.k = k;
  weights.n = n;
  weights.order = order;
  weights.leading_dimension = d_model;
  weights.first = {data.data(), expert_elements, {}};
  return weights;
}

std::vector<float> expert_layer(const std::vector<float>& x, const std::vector<float>& w1,
                                const std::vector<float>& w2) {
  // Rows: the routed assignments in expert order, back to back.
  const RowLayout layout = row_layout_from_ids(expert_ids, experts);
  const HostExpertRows rows{layout.row_offsets, layout.rows_per_expert};
  std::vector<float> x_rows, y(tokens * d_model), h(static_cast<std::size_t>(layout.useful_rows * d_ff)),
      y_rows(static_cast<std::size_t>(layout.useful_rows * d_model));
  for (const std::int64_t assignment : layout.row_to_assignment) {
    const auto token_row = x.begin() + assignment / top_k * d_model;
    x_rows.insert(x_rows.end(), token_row, token_row + d_model);
  }

  reference_sdd(rows, {x_rows.data(), d_model}, weights_of(w1, d_model, d_ff, WeightOrder::n_by_k),
                {h.data(), d_ff});
  for (float& element : h) element = std::max(element, 0.0F);
  reference_dsd(rows, {h.data(), d_ff}, weights_of(w2, d_ff, d_model, WeightOrder::k_by_n),
                {y_rows.data(), d_model});

  auto row = y_rows.begin();
  for (const std::int64_t assignment : layout.row_to_assignment) {
    const float weight = routing_weights[static_cast<std::size_t>(assignment)];
    for (auto out = y.begin() + assignment / top_k * d_model, end = out + d_model; out != end; ++out)
      *out += weight * *row++;
  }
  return y;
}

}  // namespace

int main() {
  try {
    return check(expert_layer(make_x(), make_w1(), make_w2())) ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
