// Row matrices: what memory they occupy, such of their own, and the walk over the rows of all experts.
#pragma once
#include <algorithm>
#include <vector>

#include "dropless/integer_math.hpp"
#include "dropless/reference.hpp"
#include "matrix_span.hpp"

namespace dropless {

/// [rows, columns], zeros to begin with: what is never written (columns past an expert's width) stays zero.
template <class T>
class RowMatrix {
 public:
  RowMatrix(std::int64_t rows, std::int64_t columns)
      : columns_(columns), values_(static_cast<std::size_t>(checked_product(rows, columns, "elements"))) {}

  T* row(std::int64_t r) { return values_.data() + r * columns_; }
  const T* row(std::int64_t r) const { return values_.data() + r * columns_; }
  HostRowsView<T> view() { return {values_.data(), columns_}; }
  HostRowsView<const T> view() const { return {values_.data(), columns_}; }
  HostRowsView<const T> const_view() const { return view(); }

 private:
  std::int64_t columns_;
  std::vector<T> values_;
};

template <class T>
T* row_of(const HostRowsView<T>& matrix, std::int64_t r) {
  return matrix.data + r * matrix.leading_dimension;
}

/// The memory of a row matrix; throws Error where it is not there or its pitch does not hold the columns.
template <class T>
MatrixSpan rows_span(const std::string& name, const HostRowsView<T>& matrix, std::int64_t rows,
                     std::int64_t columns) {
  return matrix_span(name, matrix.data, rows, columns, matrix.leading_dimension, sizeof(T), host_memory);
}

/// The memory of all experts' gradients, checked likewise.
template <class T>
MatrixSpan gradient_span(const std::string& name, const HostExpertGradients<T>& gradients) {
  const auto& [experts, m, n, leading_dimension, expert_stride, data] = gradients;
  const MatrixSpan one = matrix_span(name, data, m, n, leading_dimension, sizeof(T), host_memory);
  if (one.rows == 0) return {};
  if (experts > 1) require_at_least(expert_stride, (m - 1) * leading_dimension + n, name + ".expert_stride");
  return repeated(one, experts, experts > 1 ? expert_stride * std::int64_t{sizeof(T)} : 0, name);
}

inline void check_rows(const HostExpertRows& rows, std::int64_t experts) {
  require_at_least(experts, 1, "experts");
  require_equal(static_cast<std::int64_t>(rows.row_count.size()), experts, "the size of row_count");
  require_at_least(static_cast<std::int64_t>(rows.row_begin.size()), experts, "the size of row_begin");
  for (std::size_t e = 0; e < rows.row_count.size(); ++e) {
    require_at_least(rows.row_count[e], 0, "row_count of expert " + std::to_string(e));
    if (rows.row_count[e] > 0)
      require_at_least(rows.row_begin[e], 0, "row_begin of expert " + std::to_string(e));
  }
}

/// One past the last row that an expert owns.
inline std::int64_t rows_bound(const HostExpertRows& rows) {
  std::int64_t bound = 0;
  for (std::size_t e = 0; e < rows.row_count.size(); ++e)
    if (rows.row_count[e] > 0) bound = std::max(bound, rows.row_begin[e] + rows.row_count[e]);
  return bound;
}

/// Whether a walk over so many rows repays the threads; fewer are done before threads have woken up.
inline bool repays_threads(std::int64_t rows) { return rows >= 64; }

/// Calls visit(expert, row) for every row of every expert, on several threads.
template <class Visit>
void for_each_row(const HostExpertRows& rows, const Visit& visit) {
#pragma omp parallel if (repays_threads(rows_bound(rows)))
  for (std::size_t e = 0; e < rows.row_count.size(); ++e) {
    const std::int64_t begin = rows.row_begin[e], end = begin + rows.row_count[e];
#pragma omp for schedule(dynamic) nowait
    for (std::int64_t r = begin; r < end; ++r) visit(e, r);
  }
}

}  // namespace dropless
