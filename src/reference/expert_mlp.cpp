// The expert layer from tokens to tokens: tokens are copied to rows in expert order, and their rows' outputs
// are summed by ascending slot.
#include "dropless/expert_mlp_reference.hpp"
#include "dropless/row_layout.hpp"
#include "expert_mlp_checks.hpp"
#include "row_matrix.hpp"

namespace dropless {
namespace {

/// rows[row of (t, s), :] = of_tokens[t, :].
template <class T>
RowMatrix<T> gathered(const RowLayout& layout, std::int64_t top_k, const HostRowsView<const T>& of_tokens,
                      std::int64_t columns) {
  RowMatrix<T> rows(layout.useful_rows, columns);
#pragma omp parallel for if (repays_threads(layout.useful_rows))
  for (std::int64_t r = 0; r < layout.useful_rows; ++r)
    std::copy_n(row_of(of_tokens, layout.row_to_assignment[static_cast<std::size_t>(r)] / top_k), columns,
                rows.row(r));
  return rows;
}

/// of_tokens[t, :] = the sum of the token's rows (+ of_tokens[t, :]).
template <class T>
void sum_rows(const RowLayout& layout, std::int64_t top_k, const RowMatrix<T>& rows, std::int64_t columns,
              const HostRowsView<T>& of_tokens, bool accumulate) {
  const std::int64_t assignments = static_cast<std::int64_t>(layout.assignment_to_row.size());
#pragma omp parallel for if (repays_threads(layout.useful_rows))
  for (std::int64_t token = 0; token < assignments / top_k; ++token) {
    T* out = row_of(of_tokens, token);
    if (!accumulate) std::fill_n(out, columns, T{0});
    for (std::int64_t slot = 0; slot < top_k; ++slot) {
      const std::int64_t r = layout.assignment_to_row[static_cast<std::size_t>(token * top_k + slot)];
      if (r < 0) continue;
      for (std::int64_t c = 0; c < columns; ++c) out[c] += rows.row(r)[c];
    }
  }
}

/// A batch as rows in expert order, in memory of its own.
template <class T>
struct BatchOfRows {
  RowLayout layout;
  RowMatrix<T> x;
  std::vector<T> weights;

  BatchOfRows(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
              const ExpertMlpOptions& options)
      : layout(row_layout_from_ids(batch.ids, mlp.up.experts)),
        x(gathered(layout, batch.top_k, batch.x, mlp.up.k)) {
    if (options.weight_place == RoutingWeightPlace::none) return;
    for (const std::int64_t assignment : layout.row_to_assignment)
      weights.push_back(batch.routing_weights[assignment]);
  }
  HostExpertMlpRows<T> view() const {
    return {
        {layout.row_offsets, layout.rows_per_expert}, weights.empty() ? nullptr : weights.data(), x.view()};
  }
};

}  // namespace

template <class T>
void reference_expert_mlp_forward(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
                                  const HostRowsView<T>& out, const ExpertMlpOptions& options) {
  OperandSpans operands = checked_batch(mlp, batch, options);
  operands.writes("out", rows_span("out", out, batch.tokens, mlp.down.n));
  operands.check();
  const BatchOfRows<T> rows(mlp, batch, options);
  RowMatrix<T> y(rows.layout.useful_rows, mlp.down.n);
  ExpertMlpOptions of_rows = options;
  of_rows.accumulate = false;
  reference_expert_mlp_rows_forward(mlp, rows.view(), y.view(), of_rows);
  sum_rows(rows.layout, batch.top_k, y, mlp.down.n, out, options.accumulate);
}

template <class T>
void reference_expert_mlp_backward(const HostExpertMlp<T>& mlp, const HostExpertMlpBatch<T>& batch,
                                   const HostRowsView<const T>& out_gradient,
                                   const HostExpertMlpGradients<T>& gradients,
                                   const ExpertMlpOptions& options) {
  OperandSpans operands = checked_batch(mlp, batch, options);
  operands.reads("out_gradient", rows_span("out_gradient", out_gradient, batch.tokens, mlp.down.n));
  add_gradients(operands, mlp, gradients, options, batch.tokens, batch.tokens * batch.top_k);
  operands.check();
  const BatchOfRows<T> rows(mlp, batch, options);
  const RowLayout& layout = rows.layout;
  const std::int64_t d_model = mlp.up.k;
  const RowMatrix<T> y_gradient = gathered(layout, batch.top_k, out_gradient, d_model);

  RowMatrix<T> x_gradient(layout.useful_rows, d_model);
  std::vector<T> weight_gradient(static_cast<std::size_t>(layout.useful_rows));
  HostExpertMlpGradients<T> of_rows = gradients;
  if (gradients.x.data != nullptr) of_rows.x = x_gradient.view();
  if (gradients.routing_weights != nullptr) of_rows.routing_weights = weight_gradient.data();
  reference_expert_mlp_rows_backward(mlp, rows.view(), y_gradient.view(), of_rows, options);

  if (gradients.x.data != nullptr)
    sum_rows(layout, batch.top_k, x_gradient, d_model, gradients.x, /*accumulate=*/false);
  if (gradients.routing_weights != nullptr)
    for (std::size_t assignment = 0; assignment < layout.assignment_to_row.size(); ++assignment) {
      const std::int64_t r = layout.assignment_to_row[assignment];
      gradients.routing_weights[assignment] = r < 0 ? T{0} : weight_gradient[static_cast<std::size_t>(r)];
    }
}

template void reference_expert_mlp_forward(const HostExpertMlp<float>&, const HostExpertMlpBatch<float>&,
                                           const HostRowsView<float>&, const ExpertMlpOptions&);
template void reference_expert_mlp_forward(const HostExpertMlp<double>&, const HostExpertMlpBatch<double>&,
                                           const HostRowsView<double>&, const ExpertMlpOptions&);
template void reference_expert_mlp_backward(const HostExpertMlp<float>&, const HostExpertMlpBatch<float>&,
                                            const HostRowsView<const float>&,
                                            const HostExpertMlpGradients<float>&, const ExpertMlpOptions&);
template void reference_expert_mlp_backward(const HostExpertMlp<double>&, const HostExpertMlpBatch<double>&,
                                            const HostRowsView<const double>&,
                                            const HostExpertMlpGradients<double>&, const ExpertMlpOptions&);

}  // namespace dropless
