// Products whose blocks work in pairs: right, and with the bits of the same product by blocks that work alone
// (a limit of one multiprocessor leaves no room for a pair), for every operand form, number of pairs and
// order in which they take tiles.
#include "product_case.hpp"
#include "sm90/pair_schedule.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

/// Two tiles, three, one, none; an odd number of tiles, so that a pair ends with a single one.
const std::vector<std::int32_t> uneven_rows{300, 1, 230, 0, 400, 161, 90};
/// Five tiles, of which four share their weights.
const std::vector<std::int32_t> few_rows{200, 130, 170};

/// A product by blocks that work alone, held against the double reference, to compare others with.
class PairsAgainstBlocks {
 public:
  PairsAgainstBlocks(const DeviceRows& rows, const ProductShape& shape)
      : alone_(rows.view(), shape, 1),
        paired_(rows.view(), shape, 1),
        can_run_(paired_.can_run(KernelPath::sm90)) {
    if (!can_run_) return;
    REQUIRE(sm90::takes_pairs(rows.view().rows_bound, rows.view().experts, shape.k,
                              current_device_properties().multiprocessors));
    alone_.run(KernelPath::sm90, nullptr, 1);
    alone_.require_right();
  }
  /// Under a limit of multiprocessors, of which two are enough for pairs; 0: all.
  void require_same(std::int32_t sm_limit) {
    if (!can_run_) return;
    INFO(sm_limit << " multiprocessors");
    paired_.run(KernelPath::sm90, nullptr, sm_limit);
    REQUIRE(differing_bytes(alone_.out, paired_.out) == 0);
    REQUIRE(download(paired_.rows.tile_counter, 1)[0] == 0);
  }

 private:
  RowsByWeightsCase alone_, paired_;
  const bool can_run_;
};

/// sdd and dsd by all multiprocessors, by one pair, and with a multiprocessor that has no other.
void require_same_bits(const std::vector<std::int32_t>& rows_per_expert, ProductShape shape) {
  const DeviceRows rows = packed_rows(rows_per_expert);
  for (const DffDimension d_ff : {DffDimension::n, DffDimension::k}) {
    shape.d_ff = d_ff;
    INFO((d_ff == DffDimension::n ? "sdd" : "dsd"));
    PairsAgainstBlocks product(rows, shape);
    for (const std::int32_t sm_limit : {0, 2, 3}) product.require_same(sm_limit);
  }
}

}  // namespace

TEST_CASE("pairs of blocks: a few tiles, taken from the counter or dealt", "[small]") {
  ProductShape shape;
  shape.k = 1032;
  shape.n = 136;
  shape.exclusive_rows = GENERATE(true, false);
  const DeviceRows rows = packed_rows(few_rows);
  PairsAgainstBlocks product(rows, shape);
  for (const std::int32_t sm_limit : {0, 3}) product.require_same(sm_limit);
}

TEST_CASE("pairs of blocks: every type and weight order, overwritten or added to") {
  ProductShape shape;
  shape.k = 1032;
  shape.n = 584;  // three feature tiles, of which the last has two subtiles
  shape.type = GENERATE(ElementType::bf16, ElementType::fp16);
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.accumulate = GENERATE(false, true);
  shape.exclusive_rows = GENERATE(true, false);
  require_same_bits(uneven_rows, shape);
}

TEST_CASE("pairs of blocks: two tensors, separate tensors, padded rows") {
  ProductShape shape;
  shape.k = 1152;
  shape.n = 384;  // halves of 192: a feature tile has some of both
  shape.order = GENERATE(WeightOrder::k_by_n, WeightOrder::n_by_k);
  shape.two_tensors = GENERATE(false, true);
  shape.separate = GENERATE(false, true);
  shape.pad = GENERATE(0, 3);
  require_same_bits(uneven_rows, shape);
}

TEST_CASE("pairs of blocks: gaps between experts, and fewer rows than the bound") {
  ProductShape shape;
  shape.k = 1024;
  shape.n = 264;
  // One tile; none at all; one for each expert; all rows one expert's.
  const std::vector<std::int32_t> count =
      GENERATE(std::vector<std::int32_t>{0, 0, 7}, std::vector<std::int32_t>{0, 0, 0},
               std::vector<std::int32_t>{100, 1, 30}, std::vector<std::int32_t>{0, 190, 0});
  const DeviceRows rows({5, 110, 301}, count, 600);
  PairsAgainstBlocks product(rows, shape);
  for (const std::int32_t sm_limit : {0, 2, 5}) product.require_same(sm_limit);
}

TEST_CASE("pairs of blocks: many experts of 1 to 400 rows, a hundred runs") {
  std::vector<std::int32_t> rows_per_expert(96);
  for (std::size_t e = 0; e < rows_per_expert.size(); ++e)
    rows_per_expert[e] = 1 + static_cast<std::int32_t>(e * 151 % 400);
  ProductShape shape;
  shape.k = 1024;
  shape.n = 1032;  // most pieces of the last feature tile are empty
  shape.exclusive_rows = GENERATE(true, false);
  const DeviceRows rows = packed_rows(rows_per_expert);
  PairsAgainstBlocks product(rows, shape);
  for (int run = 0; run < 100; ++run) product.require_same(run % 10 == 9 ? 2 + run : 0);
}
