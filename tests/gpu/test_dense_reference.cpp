// The GPU's double-precision reference against the CPU's, dense and block-sparse operands, every transpose.
#include "dense_reference.hpp"

#include <cmath>

#include "catch.hpp"
#include "matrix_fixtures.hpp"

using namespace dropless;
using namespace dropless::test;

TEST_CASE("the GPU reference product equals a loop on the CPU", "[dense_reference][small]") {
  const std::int64_t m = 32, n = 21, k = 48;
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
    for (const bool a_transposed : {false, true})
      for (const bool b_transposed : {false, true}) {
        DeviceBlockSparse a(type, 16, m, k, a_transposed, 0.5, Fill::random, 1);
        DeviceDense b(type, k, n, b_transposed, 3, Fill::random, 2);
        const DeviceBuffer<double> sums(static_cast<std::size_t>(m * n)), magnitudes(sums.size());
        dense_reference(a.reference(), b.reference(), m, n, k, sums.data(), magnitudes.data());
        a.download();
        b.download();
        const std::vector<double> actual = sums.download(), actual_magnitudes = magnitudes.download();
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0, magnitude = 0;
            for (std::int64_t p = 0; p < k; ++p) {
              const double product = a.value(i, p) * b.value(p, j);
              sum += product;
              magnitude += std::abs(product);
            }
            const auto index = static_cast<std::size_t>(i * n + j);
            REQUIRE(actual[index] == Approx(sum).margin(1e-12));
            REQUIRE(actual_magnitudes[index] == Approx(magnitude).margin(1e-12));
          }
      }
}
