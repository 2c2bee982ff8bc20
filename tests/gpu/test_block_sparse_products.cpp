// sdd, dsd and dds over stk's matrix of cases on each path: sizes from 128 to 1024 in the three dimensions
// and every transpose in full; sparsity, block, element type and pitch in rotation, such that every transpose
// meets all of their combinations.
#include "block_sparse_case.hpp"
#include "catch.hpp"
#include "kernel_paths.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// The `index`-th combination of sparsity, block, type and pitch; 48 in a row cover all of the first three.
BlockSparseCase varied(std::int64_t index) {
  const double sparsities[] = {0.0, 0.25, 0.5, 0.75};
  const std::int64_t blocks[] = {16, 32, 64, 128}, pads[] = {0, 8, 3, 64, 1};
  const ElementType types[] = {ElementType::bf16, ElementType::fp16, ElementType::fp32};
  BlockSparseCase one;
  one.sparsity = sparsities[index / 12 % 4];
  one.block = blocks[index / 3 % 4];
  one.type = types[index % 3];
  one.pad = pads[index % 5];
  one.seed = static_cast<std::uint32_t>(1 + 1000 * index);
  return one;
}

/// The same over what the Hopper kernel takes.
BlockSparseCase varied_sm90(std::int64_t index) {
  BlockSparseCase one = varied(index);
  const std::int64_t pads[] = {0, 8, 64};
  one.sparsity = 0.25 * static_cast<double>(index / 4 % 4);
  one.block = index / 2 % 2 == 0 ? 64 : 128;
  one.type = index % 2 == 0 ? ElementType::bf16 : ElementType::fp16;
  one.pad = pads[index % 3];
  return one;
}

void check_sizes(std::initializer_list<std::int64_t> sizes, Verb verb, KernelPath path) {
  if (!gpu_has(path)) {
    WARN("skipped: this GPU has no path " << path_name(path));
    return;
  }
  // With four sizes each of the 8 transposes goes through 64 indices in a row, and so through all 48
  // combinations: all 96 of transpose, block and type, and on Hopper all 32. Steps of 7 from one transpose to
  // the next also bring every block, type, sparsity and pitch to each of the 64 sizes.
  std::int64_t size = 0;
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes) {
        for (int transposes = 0; transposes < 8; ++transposes) {
          const std::int64_t index = size + 7 * transposes;
          BlockSparseCase one = path == KernelPath::sm90 ? varied_sm90(index) : varied(index);
          one.verb = verb;
          one.m = m;
          one.n = n;
          one.k = k;
          one.a_transposed = transposes & 1;
          one.b_transposed = transposes & 2;
          one.out_transposed = transposes & 4;
          REQUIRE(check_case(one, path));
        }
        ++size;
      }
}

}  // namespace

TEST_CASE("block-sparse products: stk's sizes, every transpose", "[block_sparse]") {
  check_sizes({128, 256, 512, 1024}, GENERATE(Verb::sdd, Verb::dsd, Verb::dds), KernelPath::portable);
}
TEST_CASE("block-sparse products on Hopper: stk's sizes, every transpose", "[block_sparse][sm90]") {
  check_sizes({128, 256, 512, 1024}, GENERATE(Verb::sdd, Verb::dsd, Verb::dds), KernelPath::sm90);
}

TEST_CASE("block-sparse products: every block, type and transpose at one size", "[block_sparse][small]") {
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (std::int64_t index = 0; index < 12; ++index) {
      BlockSparseCase one = varied(index + 24);
      one.verb = verb;
      one.m = one.n = one.k = 128;
      one.a_transposed = index & 1;
      one.b_transposed = index & 2;
      one.out_transposed = index & 4;
      check_case(one);
    }
}

TEST_CASE("dense dimensions that are no multiple of anything", "[block_sparse]") {
  for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32})
    for (const bool aligned : {false, true})
      for (const std::int64_t odd : {1, 7, 9, 33, 130, 257, 328})
        for (int transposes = 0; transposes < 8; ++transposes) {
          const std::int64_t size = aligned ? 384 : 128;
          BlockSparseCase one = aligned ? varied_sm90(odd + transposes) : varied(odd + transposes);
          one.aligned = aligned;
          one.type = type;
          one.m = one.n = one.k = size;
          one.a_transposed = transposes & 1;
          one.b_transposed = transposes & 2;
          one.out_transposed = transposes & 4;
          one.verb = Verb::sdd;
          one.k = odd;
          check_case(one);
          one.verb = Verb::dsd;
          one.k = size;
          one.n = odd;
          check_case(one);
          one.verb = Verb::dds;
          one.n = size;
          one.m = odd;
          check_case(one);
        }
}

TEST_CASE("patterns without blocks and zero sizes", "[block_sparse][small]") {
  for (const Verb verb : {Verb::sdd, Verb::dsd, Verb::dds})
    for (const ElementType type : {ElementType::bf16, ElementType::fp16, ElementType::fp32}) {
      BlockSparseCase one;
      one.verb = verb;
      one.type = type;
      one.block = type == ElementType::fp16 ? 64 : 32;
      one.m = one.n = one.k = 128;
      one.sparsity = 1.0;
      check_case(one);
      one.sparsity = 0.5;
      for (std::int64_t BlockSparseCase::*size :
           {&BlockSparseCase::m, &BlockSparseCase::n, &BlockSparseCase::k}) {
        BlockSparseCase empty = one;
        empty.*size = 0;
        check_case(empty);
      }
    }
}
