// Builds, runs and checks one block-sparse product.
#include "block_sparse_case.hpp"

#include "accuracy.hpp"
#include "catch.hpp"
#include "dropless/integer_math.hpp"
#include "kernel_paths.hpp"
#include "matrix_fixtures.hpp"

namespace dropless::test {
namespace {

/// Compares an output with the reference product of `a` and `b`. `is_written(row, column)` says which
/// elements the product has.
template <class Output, class IsWritten>
void check_output(const BlockSparseCase& one, const ReferenceOperand& a, const ReferenceOperand& b,
                  Output& out, IsWritten is_written) {
  const DeviceBuffer<double> sums(static_cast<std::size_t>(one.m * one.n)), magnitudes(sums.size());
  dense_reference(a, b, one.m, one.n, one.k, sums.data(), magnitudes.data());
  out.download();
  const std::vector<double> expected = sums.download(), bounds = magnitudes.download();
  ProductAccuracy accuracy(one.type);
  for (std::int64_t i = 0; i < one.m; ++i)
    for (std::int64_t j = 0; j < one.n; ++j)
      if (is_written(i, j)) {
        const auto index = static_cast<std::size_t>(i * one.n + j);
        accuracy.add(out.value(i, j), expected[index], bounds[index]);
      }
  CHECK(accuracy.elements_past_bound() == 0);
  CHECK(accuracy.relative_error() <= accuracy.relative_error_limit());
  CHECK(out.surroundings_intact());
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const BlockSparseCase& one) {
  const char* const names[] = {"sdd", "dsd", "dds"};
  return stream << names[static_cast<int>(one.verb)] << " m " << one.m << " n " << one.n << " k " << one.k
                << (one.a_transposed ? " a^T" : " a") << (one.b_transposed ? " b^T" : " b")
                << (one.out_transposed ? " out^T" : " out") << " sparsity " << one.sparsity << " block "
                << one.block << " " << element_name(one.type) << " pad " << one.pad;
}

bool check_case(const BlockSparseCase& one, KernelPath path) {
  INFO(one << " path " << path_name(path));
  if (!gpu_has(path)) return false;
  const auto everywhere = [](std::int64_t, std::int64_t) { return true; };
  const auto dense = [&](std::int64_t rows, std::int64_t columns, bool transposed, Fill fill,
                         std::uint32_t seed) {
    const std::int64_t stored = transposed ? rows : columns, pitch = stored + one.pad;
    return DeviceDense(one.type, rows, columns, transposed,
                       (one.aligned ? round_up(pitch, 8) : pitch) - stored, fill, one.seed + seed);
  };
  const auto sparse = [&](std::int64_t rows, std::int64_t columns, bool transposed, Fill fill) {
    return DeviceBlockSparse(one.type, one.block, rows, columns, transposed, one.sparsity, fill, one.seed);
  };
  const auto takes = [&](KernelPath automatic) { return path == KernelPath::portable || path == automatic; };
  if (one.verb == Verb::sdd) {
    const DeviceDense a = dense(one.m, one.k, one.a_transposed, Fill::random, 10);
    const DeviceDense b = dense(one.k, one.n, one.b_transposed, Fill::random, 20);
    DeviceBlockSparse out = sparse(one.m, one.n, one.out_transposed, Fill::poison);
    if (!takes(sdd_path(a.view(), b.view(), out.view()))) return false;
    sdd(a.view(), b.view(), out.view(), nullptr, path);
    check_output(one, a.reference(), b.reference(), out,
                 [&](std::int64_t row, std::int64_t column) { return out.block_of(row, column) >= 0; });
    return true;
  }
  DeviceDense out = dense(one.m, one.n, one.out_transposed, Fill::poison, 0);
  if (one.verb == Verb::dsd) {
    const DeviceBlockSparse a = sparse(one.m, one.k, one.a_transposed, Fill::random);
    const DeviceDense b = dense(one.k, one.n, one.b_transposed, Fill::random, 20);
    if (!takes(dsd_path(a.view(), b.view(), out.view()))) return false;
    dsd(a.view(), b.view(), out.view(), nullptr, path);
    check_output(one, a.reference(), b.reference(), out, everywhere);
  } else {
    const DeviceDense a = dense(one.m, one.k, one.a_transposed, Fill::random, 10);
    const DeviceBlockSparse b = sparse(one.k, one.n, one.b_transposed, Fill::random);
    if (!takes(dds_path(a.view(), b.view(), out.view()))) return false;
    dds(a.view(), b.view(), out.view(), nullptr, path);
    check_output(one, a.reference(), b.reference(), out, everywhere);
  }
  return true;
}

void check_case(const BlockSparseCase& one) {
  for (const KernelPath path : all_paths) check_case(one, path);
}

}  // namespace dropless::test
