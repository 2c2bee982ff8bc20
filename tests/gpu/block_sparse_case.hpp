// One block-sparse product of random operands, checked against the double-precision reference: accuracy of
// every element, zeros where the sparse operand has none, and nothing written outside the output.
#pragma once
#include <ostream>

#include "dropless/element_type.hpp"
#include "dropless/kernel_path.hpp"

namespace dropless::test {

enum class Verb { sdd, dsd, dds };

struct BlockSparseCase {
  Verb verb = Verb::sdd;
  std::int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false, out_transposed = false;
  double sparsity = 0;
  std::int64_t block = 16;
  ElementType type = ElementType::bf16;
  std::int64_t pad = 0;  ///< elements behind each row of the dense matrices ...
  bool aligned = false;  ///< ... and as many more as make the next row begin at a multiple of 16 bytes
  std::uint32_t seed = 1;
};

std::ostream& operator<<(std::ostream& stream, const BlockSparseCase& one);

/// Runs the case on `path` and makes Catch2 assertions; false where the path cannot take the case here.
bool check_case(const BlockSparseCase& one, KernelPath path);
/// Runs it on every path that can take it.
void check_case(const BlockSparseCase& one);

}  // namespace dropless::test
