// Runs nothing itself: picks the experts' rows out of results, and asks the CPU for its own.
#include "expert_mlp_rows_case.hpp"

#include <cmath>
#include <utility>

namespace dropless::test {

ExpertMlpRowsCase::ExpertMlpRowsCase(const ExpertMlpShape& shape, ElementType type,
                                     std::vector<std::int32_t> begin, std::vector<std::int32_t> count)
    : host(shape),
      layer(host, type, type),
      row_begin(std::move(begin)),
      row_count(std::move(count)),
      rows(row_begin, row_count, shape.tokens) {}

ExpertMlpRows ExpertMlpRowsCase::batch() const {
  const ExpertMlpBatch tokens = layer.batch();
  return {rows.view(), tokens.routing_weights, tokens.x};
}

bool ExpertMlpRowsCase::is_row(std::int64_t row) const {
  for (std::size_t e = 0; e < row_begin.size(); ++e)
    if (row >= row_begin[e] && row < row_begin[e] + row_count[e]) return true;
  return false;
}

std::vector<double> ExpertMlpRowsCase::of_rows(const std::vector<double>& values) const {
  const std::int64_t bound = host.shape.tokens, columns = static_cast<std::int64_t>(values.size()) / bound;
  std::vector<double> result;
  bool others_unwritten = true;
  for (std::int64_t r = 0; r < bound; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const double value = values[static_cast<std::size_t>(r * columns + c)];
      if (is_row(r))
        result.push_back(value);
      else
        others_unwritten = others_unwritten && std::isnan(value);
    }
  REQUIRE(others_unwritten);
  return result;
}

NamedValues ExpertMlpRowsCase::of_rows(NamedValues all) const {
  for (auto& [name, values] : all)
    if (name == "out" || name == "x" || name == "routing_weights") values = of_rows(values);
  return all;
}

NamedValues ExpertMlpRowsCase::expected() const {
  const std::vector<std::int64_t> begin(row_begin.begin(), row_begin.end()),
      count(row_count.begin(), row_count.end());
  const std::int64_t d_model = host.shape.d_model;
  const HostExpertMlpRows<double> batch{
      {begin, count}, host.weighted() ? host.routing_weights.data() : nullptr, {host.x.data(), d_model}};
  std::vector<double> y(host.x.size(), NAN);
  reference_expert_mlp_rows_forward(host.mlp(), batch, {y.data(), d_model}, host.options);
  CaseGradients gradients(host, NAN);
  reference_expert_mlp_rows_backward(host.mlp(), batch, {host.out_gradient.data(), d_model},
                                     gradients.view(host), host.options);
  NamedValues all{{"out", y}};
  for (const auto& [name, values] : gradients.all()) all.emplace_back(name, *values);
  return of_rows(all);
}

}  // namespace dropless::test
