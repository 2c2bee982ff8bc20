// The public expert products: arguments are checked and translated, a path is chosen, and the path computes.
#include "dropless/expert_products.hpp"

#include "chosen_path.hpp"
#include "current_device.hpp"
#include "product_arguments.hpp"
#include "product_checks.hpp"

namespace dropless {
namespace {

// The products below know their number of multiprocessors when they run: a wrong argument is named before a
// GPU is asked for.

/// The rows as a path sees them: with a counter only where the caller lends it to this product alone.
ExpertRows rows_of_product(ExpertRows rows, const ProductOptions& options) {
  if (!options.exclusive_rows) rows.tile_counter = nullptr;
  return rows;
}

RowsByWeights rows_by_weights(const ExpertRows& rows, const RowsView& in, const ExpertWeights& weights,
                              const MutableRowsView& out, const ProductOptions& options, bool d_ff_is_n) {
  return {rows_of_product(rows, options),
          in,
          weights,
          out,
          has_second(weights) && d_ff_is_n,
          d_ff_is_n,
          options.accumulate,
          0};
}

RowsTransposedByRows rows_transposed_by_rows(const ExpertRows& rows, const RowsView& a, const RowsView& b,
                                             const ExpertGradients& dw, const ProductOptions& options) {
  return {rows_of_product(rows, options), a, b, dw, options.accumulate, 0};
}

/// All that the host can see: the arguments, and on which GPU the rows were laid out. An operand may lie in
/// another GPU's memory where the current one can reach it.
template <class Product>
void check(const Product& product) {
  product_checks::check(product);
  check_current_device(product.rows.row_begin, "rows.row_begin");
}

template <class Product>
void run(Product product, bool nothing_to_do, const ProductOptions& options, Stream stream) {
  require_at_least(options.sm_limit, 0, "options.sm_limit");
  check(product);
  if (nothing_to_do) return;
  product.multiprocessors = multiprocessors_within(options.sm_limit);
  if (chosen_path(product, options.path, "options.path") == KernelPath::sm90)
    launch_sm90(product, stream);
  else
    launch_portable(product, stream);
}

template <class Product>
KernelPath checked_path(const Product& product) {
  check(product);
  return possible_path(product);
}

bool has_rows(const ExpertRows& rows) { return rows.experts > 0 && rows.rows_bound > 0; }

}  // namespace

void sdd(const ExpertRows& rows, const RowsView& x, const ExpertWeights& w1, const MutableRowsView& h,
         const ProductOptions& options, Stream stream) {
  run(rows_by_weights(rows, x, w1, h, options, true), !has_rows(rows), options, stream);
}

void dsd(const ExpertRows& rows, const RowsView& h, const ExpertWeights& w2, const MutableRowsView& y,
         const ProductOptions& options, Stream stream) {
  run(rows_by_weights(rows, h, w2, y, options, false), !has_rows(rows), options, stream);
}

void weight_gradient(const ExpertRows& rows, const RowsView& a, const RowsView& b, const ExpertGradients& dw,
                     const ProductOptions& options, Stream stream) {
  const bool nothing_to_do = rows.experts == 0 || (options.accumulate && rows.rows_bound == 0);
  run(rows_transposed_by_rows(rows, a, b, dw, options), nothing_to_do, options, stream);
}

KernelPath sdd_path(const ExpertRows& rows, const RowsView& x, const ExpertWeights& w1,
                    const MutableRowsView& h) {
  return checked_path(rows_by_weights(rows, x, w1, h, {}, true));
}

KernelPath dsd_path(const ExpertRows& rows, const RowsView& h, const ExpertWeights& w2,
                    const MutableRowsView& y) {
  return checked_path(rows_by_weights(rows, h, w2, y, {}, false));
}

KernelPath weight_gradient_path(const ExpertRows& rows, const RowsView& a, const RowsView& b,
                                const ExpertGradients& dw) {
  return checked_path(rows_transposed_by_rows(rows, a, b, dw, {}));
}

}  // namespace dropless
