// An expert layer over rows that the caller has in expert order, with rows between that no expert has, and
// the CPU's results to compare with.
#pragma once
#include <string>
#include <vector>

#include "expert_mlp_device.hpp"
#include "product_case.hpp"

namespace dropless::test {

struct ExpertMlpRowsCase {
  /// shape.tokens is the bound of the rows, and top_k one.
  ExpertMlpRowsCase(const ExpertMlpShape& shape, ElementType type, std::vector<std::int32_t> begin,
                    std::vector<std::int32_t> count);

  ExpertMlpRows batch() const;
  /// The values of the experts' rows among those of all; requires that the others were not written.
  std::vector<double> of_rows(const std::vector<double>& values) const;
  /// Those that are by row without the rows that no expert has.
  NamedValues results() const { return of_rows(layer.results()); }
  NamedValues expected() const;

  ExpertMlpCase host;
  DeviceLayer layer;
  std::vector<std::int32_t> row_begin, row_count;
  DeviceRows rows;

 private:
  bool is_row(std::int64_t row) const;
  NamedValues of_rows(NamedValues all) const;
};

}  // namespace dropless::test
