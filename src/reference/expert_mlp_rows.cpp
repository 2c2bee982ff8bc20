// The expert layer from rows to rows: the products of reference.hpp with bias, activation and routing weight
// between them. Names as in expert_mlp.hpp; z is a row before its routing weight: y = output_scale * weight *
// z.
#include "activation_math.hpp"
#include "dropless/expert_mlp_reference.hpp"
#include "expert_mlp_checks.hpp"
#include "row_matrix.hpp"

namespace dropless {
namespace {

/// The columns that expert e has of the up product.
template <class T>
std::int64_t up_width(const HostExpertMlp<T>& mlp, std::size_t e) {
  return mlp.up.d_ff.empty() ? mlp.up.n : mlp.up.d_ff[e];
}

/// The factor of row r at `place`: its routing weight where that stands there, else 1.
template <class T>
T weight_at(RoutingWeightPlace place, const HostExpertMlpRows<T>& batch, const ExpertMlpOptions& options,
            std::int64_t r) {
  return options.weight_place == place ? batch.row_weights[r] : T{1};
}

template <class T>
RowMatrix<T> pre_activation(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                            const ExpertMlpOptions& options) {
  RowMatrix<T> p(rows_bound(batch.rows), mlp.up.n);
  reference_sdd(batch.rows, batch.x, mlp.up, p.view());
  for_each_row(batch.rows, [&](std::size_t e, std::int64_t r) {
    const T scale = weight_at(RoutingWeightPlace::input, batch, options, r);
    const T* bias = mlp.up_bias == nullptr ? nullptr : mlp.up_bias + static_cast<std::int64_t>(e) * mlp.up.n;
    T* row = p.row(r);
    for (std::int64_t c = 0; c < up_width(mlp, e); ++c)
      row[c] = scale * row[c] + (bias == nullptr ? T{0} : bias[c]);
  });
  return p;
}

template <class T>
RowMatrix<T> activated(const HostExpertMlp<T>& mlp, const HostExpertRows& rows, const RowMatrix<T>& p) {
  RowMatrix<T> h(rows_bound(rows), mlp.down.k);
  for_each_row(rows, [&](std::size_t e, std::int64_t r) {
    const std::int64_t d_ff = up_width(mlp, e) / up_columns(mlp.kind, 1);
    const T *first = p.row(r), *up = first + d_ff;
    for (std::int64_t f = 0; f < d_ff; ++f)
      h.row(r)[f] = mlp.kind == MlpKind::glu ? glu(mlp.activation, first[f], up[f]).value
                                             : activation_function(mlp.activation, first[f]).value;
  });
  return h;
}

template <class T>
RowMatrix<T> pre_activation_gradient(const HostExpertMlp<T>& mlp, const HostExpertRows& rows,
                                     const RowMatrix<T>& p, const RowMatrix<T>& h_gradient) {
  RowMatrix<T> p_gradient(rows_bound(rows), mlp.up.n);
  for_each_row(rows, [&](std::size_t e, std::int64_t r) {
    const std::int64_t d_ff = up_width(mlp, e) / up_columns(mlp.kind, 1);
    const T *first = p.row(r), *up = first + d_ff, *incoming = h_gradient.row(r);
    T* out = p_gradient.row(r);
    for (std::int64_t f = 0; f < d_ff; ++f)
      if (mlp.kind == MlpKind::glu) {
        const GluValue<T> h = glu(mlp.activation, first[f], up[f]);
        out[f] = incoming[f] * h.gate_slope;
        out[d_ff + f] = incoming[f] * h.up_slope;
      } else {
        out[f] = incoming[f] * activation_function(mlp.activation, first[f]).slope;
      }
  });
  return p_gradient;
}

template <class T>
RowMatrix<T> down_product(const HostExpertMlp<T>& mlp, const HostExpertRows& rows, const RowMatrix<T>& h) {
  RowMatrix<T> z(rows_bound(rows), mlp.down.n);
  reference_dsd(rows, h.view(), mlp.down, z.view());
  if (mlp.down_bias != nullptr)
    for_each_row(rows, [&](std::size_t e, std::int64_t r) {
      const T* bias = mlp.down_bias + static_cast<std::int64_t>(e) * mlp.down.n;
      for (std::int64_t c = 0; c < mlp.down.n; ++c) z.row(r)[c] += bias[c];
    });
  return z;
}

template <class T>
T dot(const T* a, const T* b, std::int64_t count) {
  T sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// gradient[e, :] = the sum of expert e's rows.
template <class T>
void bias_gradient(const HostExpertRows& rows, const RowMatrix<T>& matrix, std::int64_t columns, T* gradient,
                   bool accumulate) {
#pragma omp parallel for schedule(dynamic) if (repays_threads(rows_bound(rows)))
  for (std::size_t e = 0; e < rows.row_count.size(); ++e) {
    std::vector<T> sums(static_cast<std::size_t>(columns), T{0});
    for (std::int64_t r = rows.row_begin[e]; r < rows.row_begin[e] + rows.row_count[e]; ++r)
      for (std::int64_t c = 0; c < columns; ++c) sums[static_cast<std::size_t>(c)] += matrix.row(r)[c];
    for (std::int64_t c = 0; c < columns; ++c) {
      T& value = gradient[static_cast<std::int64_t>(e) * columns + c];
      value = sums[static_cast<std::size_t>(c)] + (accumulate ? value : T{0});
    }
  }
}

/// One half of each row's up columns: gate (0) or up (1) of two tensors.
template <class T>
RowMatrix<T> half_of_columns(const HostExpertMlp<T>& mlp, const HostExpertRows& rows,
                             const RowMatrix<T>& matrix, int half) {
  RowMatrix<T> result(rows_bound(rows), mlp.up.n / 2);
  for_each_row(rows, [&](std::size_t e, std::int64_t r) {
    const std::int64_t width = up_width(mlp, e) / 2;
    std::copy_n(matrix.row(r) + half * width, width, result.row(r));
  });
  return result;
}

template <class T>
void up_gradients(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                  const RowMatrix<T>& product_gradient, const HostExpertMlpGradients<T>& gradients,
                  bool accumulate) {
  if (!has_second(mlp.up)) {
    if (gradients.up.data != nullptr)
      reference_weight_gradient(batch.rows, batch.x, product_gradient.view(), gradients.up, accumulate);
    return;
  }
  for (const int half : {0, 1}) {
    const HostExpertGradients<T>& gradient = half == 0 ? gradients.up : gradients.up_second;
    if (gradient.data == nullptr) continue;
    const RowMatrix<T> columns = half_of_columns(mlp, batch.rows, product_gradient, half);
    reference_weight_gradient(batch.rows, batch.x, columns.view(), gradient, accumulate);
  }
}

}  // namespace

template <class T>
void reference_expert_mlp_rows_forward(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                                       const HostRowsView<T>& y, const ExpertMlpOptions& options) {
  OperandSpans operands = checked_batch(mlp, batch, options);
  operands.writes("y", rows_span("y", y, rows_bound(batch.rows), mlp.down.n));
  operands.check();
  const RowMatrix<T> h = activated(mlp, batch.rows, pre_activation(mlp, batch, options));
  const RowMatrix<T> z = down_product(mlp, batch.rows, h);
  for_each_row(batch.rows, [&](std::size_t, std::int64_t r) {
    const T factor =
        static_cast<T>(options.output_scale) * weight_at(RoutingWeightPlace::output, batch, options, r);
    T* row = row_of(y, r);
    for (std::int64_t c = 0; c < mlp.down.n; ++c)
      row[c] = factor * z.row(r)[c] + (options.accumulate ? row[c] : T{0});
  });
}

template <class T>
void reference_expert_mlp_rows_backward(const HostExpertMlp<T>& mlp, const HostExpertMlpRows<T>& batch,
                                        const HostRowsView<const T>& y_gradient,
                                        const HostExpertMlpGradients<T>& gradients,
                                        const ExpertMlpOptions& options) {
  OperandSpans operands = checked_batch(mlp, batch, options);
  const HostExpertRows& rows = batch.rows;
  const std::int64_t bound = rows_bound(rows), d_model = mlp.up.k;
  operands.reads("y_gradient", rows_span("y_gradient", y_gradient, bound, d_model));
  add_gradients(operands, mlp, gradients, options, bound, bound);
  operands.check();
  const T output_scale = options.output_scale;
  const RowMatrix<T> p = pre_activation(mlp, batch, options), h = activated(mlp, rows, p);

  RowMatrix<T> z_gradient(bound, d_model);
  for_each_row(rows, [&](std::size_t, std::int64_t r) {
    const T factor = output_scale * weight_at(RoutingWeightPlace::output, batch, options, r);
    for (std::int64_t c = 0; c < d_model; ++c) z_gradient.row(r)[c] = factor * row_of(y_gradient, r)[c];
  });
  if (gradients.routing_weights != nullptr && options.weight_place == RoutingWeightPlace::output) {
    const RowMatrix<T> z = down_product(mlp, rows, h);
    for_each_row(rows, [&](std::size_t, std::int64_t r) {
      gradients.routing_weights[r] = output_scale * dot(row_of(y_gradient, r), z.row(r), d_model);
    });
  }
  if (gradients.down_bias != nullptr)
    bias_gradient(rows, z_gradient, d_model, gradients.down_bias, options.accumulate);
  if (gradients.down.data != nullptr)
    reference_weight_gradient(rows, h.view(), z_gradient.const_view(), gradients.down, options.accumulate);

  RowMatrix<T> h_gradient(bound, mlp.down.k);
  reference_sdd(rows, z_gradient.const_view(), transposed(mlp.down), h_gradient.view());
  RowMatrix<T> p_gradient = pre_activation_gradient(mlp, rows, p, h_gradient);
  if (gradients.up_bias != nullptr)
    bias_gradient(rows, p_gradient, mlp.up.n, gradients.up_bias, options.accumulate);

  const bool weight_gradient =
      gradients.routing_weights != nullptr && options.weight_place == RoutingWeightPlace::input;
  if (gradients.x.data != nullptr || weight_gradient) {
    RowMatrix<T> scaled_x_gradient(bound, d_model);  // of scale * x
    reference_dsd(rows, p_gradient.const_view(), transposed(mlp.up), scaled_x_gradient.view());
    for_each_row(rows, [&](std::size_t, std::int64_t r) {
      const T* gradient = scaled_x_gradient.row(r);
      if (weight_gradient) gradients.routing_weights[r] = dot(row_of(batch.x, r), gradient, d_model);
      if (gradients.x.data == nullptr) return;
      const T scale = weight_at(RoutingWeightPlace::input, batch, options, r);
      for (std::int64_t c = 0; c < d_model; ++c) row_of(gradients.x, r)[c] = scale * gradient[c];
    });
  }

  // p is scale times x W_up, so the gradient of x W_up is scale times that of p.
  for_each_row(rows, [&](std::size_t, std::int64_t r) {
    const T scale = weight_at(RoutingWeightPlace::input, batch, options, r);
    for (std::int64_t c = 0; c < mlp.up.n; ++c) p_gradient.row(r)[c] *= scale;
  });
  up_gradients(mlp, batch, p_gradient, gradients, options.accumulate);
}

template void reference_expert_mlp_rows_forward(const HostExpertMlp<float>&, const HostExpertMlpRows<float>&,
                                                const HostRowsView<float>&, const ExpertMlpOptions&);
template void reference_expert_mlp_rows_forward(const HostExpertMlp<double>&,
                                                const HostExpertMlpRows<double>&, const HostRowsView<double>&,
                                                const ExpertMlpOptions&);
template void reference_expert_mlp_rows_backward(const HostExpertMlp<float>&, const HostExpertMlpRows<float>&,
                                                 const HostRowsView<const float>&,
                                                 const HostExpertMlpGradients<float>&,
                                                 const ExpertMlpOptions&);
template void reference_expert_mlp_rows_backward(const HostExpertMlp<double>&,
                                                 const HostExpertMlpRows<double>&,
                                                 const HostRowsView<const double>&,
                                                 const HostExpertMlpGradients<double>&,
                                                 const ExpertMlpOptions&);

}  // namespace dropless
