// What the CPU expert layer refuses: operands that do not fit together.
#pragma once
#include <string>

#include "argument_checks.hpp"
#include "dropless/expert_mlp_reference.hpp"
#include "row_matrix.hpp"

namespace dropless {

template <class T>
void check_mlp(const HostExpertMlp<T>& mlp) {
  check_activation(mlp.activation, mlp.kind);
  require_equal(mlp.down.experts, mlp.up.experts, "down.experts");
  require_equal(mlp.down.n, mlp.up.k, "down.n");
  require_equal(mlp.up.n, up_columns(mlp.kind, mlp.down.k), "up.n");
  require_equal(static_cast<std::int64_t>(mlp.down.d_ff.size()),
                static_cast<std::int64_t>(mlp.up.d_ff.size()), "the number of widths in down.d_ff");
  for (std::size_t e = 0; e < mlp.up.d_ff.size(); ++e)
    require_equal(mlp.up.d_ff[e], up_columns(mlp.kind, mlp.down.d_ff[e]),
                  "up.d_ff of expert " + std::to_string(e));
}

/// `count`: how many there must be.
template <class T>
void check_routing_weights(const T* weights, std::int64_t count, const ExpertMlpOptions& options) {
  const bool weighted = options.weight_place != RoutingWeightPlace::none, given = weights != nullptr;
  if (weighted == given || (weighted && count == 0)) return;
  throw Error("the array of routing weights", given ? "given" : "null",
              weighted ? "weights, as weight_place is output or input" : "null, as weight_place is none");
}

template <class T>
void check_batch(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                 const ExpertMlpOptions& options) {
  const std::int64_t experts = mlp.up.experts;
  require_equal(static_cast<std::int64_t>(batch.rows.row_count.size()), experts, "the size of row_count");
  if (batch.rows.row_begin.size() < batch.rows.row_count.size())
    throw Error("the size of row_begin", std::to_string(batch.rows.row_begin.size()),
                std::to_string(experts) + " or more");
  check_routing_weights(batch.row_weights, rows_bound(batch.rows), options);
}

template <class T>
void check_gradient(const HostExpertGradients<T>& gradient, std::int64_t experts, std::int64_t m,
                    std::int64_t n, const std::string& name) {
  if (gradient.data == nullptr) return;
  require_equal(gradient.experts, experts, name + ".experts");
  require_equal(gradient.m, m, name + ".m");
  require_equal(gradient.n, n, name + ".n");
}

template <class T>
void check_gradients(const HostExpertMlp<T>& mlp, const HostExpertMlpGradients<T>& gradients,
                     const ExpertMlpOptions& options) {
  const std::int64_t experts = mlp.up.experts, d_model = mlp.up.k;
  const bool second = has_second(mlp.up);
  check_gradient(gradients.up, experts, d_model, second ? mlp.up.n / 2 : mlp.up.n, "gradients.up");
  check_gradient(gradients.up_second, experts, d_model, mlp.up.n / 2, "gradients.up_second");
  check_gradient(gradients.down, experts, mlp.down.k, d_model, "gradients.down");
  if (gradients.up_second.data != nullptr && !second)
    throw Error("gradients.up_second", "given", "null, as up is one tensor");
  if (gradients.routing_weights != nullptr && options.weight_place == RoutingWeightPlace::none)
    throw Error("gradients.routing_weights", "given", "null, as weight_place is none");
}

}  // namespace dropless
