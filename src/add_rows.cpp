// One vectorised loop.
#include "add_rows.hpp"

#include "vector_clones.hpp"

namespace dropless {
namespace {

DROPLESS_VECTOR_CLONES
void add(std::int64_t* sums, const std::int64_t* rows, std::size_t experts) {
  for (std::size_t e = 0; e < experts; ++e) sums[e] += rows[e];
}

}  // namespace

void add_rows(std::vector<std::int64_t>& sums, ArrayView<const std::int64_t> rows) {
  sums.resize(rows.size());
  add(sums.data(), rows.data(), rows.size());
}

}  // namespace dropless
