// The block topology in closed form against the worked example and a plain construction that sorts.
#include <algorithm>
#include <limits>
#include <numeric>

#include "catch.hpp"
#include "dropless/block_topology.hpp"
#include "dropless/error.hpp"
#include "routing.hpp"

using namespace dropless;

namespace {

using Indices = std::vector<std::int32_t>;
using Counts = std::vector<std::int64_t>;

std::int32_t narrow(std::size_t value) { return static_cast<std::int32_t>(value); }

/// Lists the blocks row by row, as a dense scan would, then transposes by a stable sort on the column.
void check_against_sort(const RowLayout& layout, const Counts& d_ff) {
  const BlockTopology topology = block_topology(layout, d_ff);
  Indices offsets = {0}, rows, columns;
  std::int32_t first_column = 0;
  for (std::size_t expert = 0; expert < layout.rows_per_expert.size(); ++expert) {
    const auto width = static_cast<std::int32_t>(d_ff[d_ff.size() == 1 ? 0 : expert] / layout.block);
    for (std::int64_t row = layout.row_offsets[expert]; row < layout.row_offsets[expert + 1];
         row += layout.block) {
      for (std::int32_t column = first_column; column < first_column + width; ++column) {
        rows.push_back(static_cast<std::int32_t>(row / layout.block));
        columns.push_back(column);
      }
      offsets.push_back(narrow(columns.size()));
    }
    first_column += width;
  }
  Indices order(columns.size());
  std::iota(order.begin(), order.end(), 0);
  const auto column_of = [&](std::int32_t q) { return columns[static_cast<std::size_t>(q)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int32_t a, std::int32_t b) { return column_of(a) < column_of(b); });
  Indices rows_transposed, offsets_transposed(static_cast<std::size_t>(first_column) + 1, 0);
  for (const std::int32_t q : order) {
    rows_transposed.push_back(rows[static_cast<std::size_t>(q)]);
    ++offsets_transposed[static_cast<std::size_t>(column_of(q)) + 1];
  }
  std::partial_sum(offsets_transposed.begin(), offsets_transposed.end(), offsets_transposed.begin());

  CHECK(topology.block == layout.block);
  CHECK(topology.block_rows == layout.scheduled_rows / layout.block);
  CHECK(topology.block_columns == first_column);
  REQUIRE(topology.nonzero_blocks == static_cast<std::int64_t>(columns.size()));
  REQUIRE(topology.offsets == offsets);
  REQUIRE(topology.row_indices == rows);
  REQUIRE(topology.column_indices == columns);
  REQUIRE(topology.offsets_transposed == offsets_transposed);
  REQUIRE(topology.column_indices_transposed == rows_transposed);
  REQUIRE(topology.block_offsets_transposed == order);
  CHECK(topology.metadata_bytes() ==
        4 * static_cast<std::int64_t>(offsets.size() + offsets_transposed.size() + 4 * columns.size()));
}

}  // namespace

TEST_CASE("block topology: the worked example's arrays and bytes") {
  const RowLayout layout = row_layout_from_counts(Counts{3, 0, 130, 128}, 128);
  const BlockTopology topology = block_topology(layout, Counts{256});
  CHECK(topology.block_rows == 4);
  CHECK(topology.block_columns == 8);
  CHECK(topology.nonzero_blocks == 8);
  CHECK(topology.offsets == Indices{0, 2, 4, 6, 8});
  CHECK(topology.row_indices == Indices{0, 0, 1, 1, 2, 2, 3, 3});
  CHECK(topology.column_indices == Indices{0, 1, 4, 5, 4, 5, 6, 7});
  CHECK(topology.column_indices_transposed == Indices{0, 0, 1, 2, 1, 2, 3, 3});
  CHECK(topology.offsets_transposed == Indices{0, 1, 2, 2, 2, 4, 6, 7, 8});
  CHECK(topology.block_offsets_transposed == Indices{0, 1, 2, 4, 3, 5, 6, 7});
  CHECK(topology.metadata_bytes() == 4 * (5 + 9 + 4 * 8));
  CHECK(topology.value_bytes(2) == 262144);
  CHECK(megablocks_topology_bytes(8, 4, 8) == 136);
  CHECK(megablocks_routing_bytes(261, 4) == 3196);
  CHECK(layout.scheduled_rows * 512 * 2 == 524288);
}

TEST_CASE("block topology: MegaBlocks' bytes of a large balanced batch") {
  // T 32768, k 8, E 128, ffn 1024: every expert has 2048 rows.
  const BlockTopology topology = block_topology(row_layout_from_counts(Counts(128, 2048), 128), Counts{1024});
  CHECK(megablocks_routing_bytes(32768 * 8, 128) == 3147776);
  CHECK(megablocks_topology_bytes(topology.nonzero_blocks, topology.block_rows, topology.block_columns) ==
        176136);
}

TEST_CASE("block topology: equals a sort-based construction over random shapes and widths") {
  std::mt19937 random(11);
  for (int round = 0; round < 150; ++round) {
    const std::int64_t block = std::int64_t{16} << random() % 4;
    Counts rows(1 + random() % 24), d_ff(random() % 2 == 0 ? 1 : rows.size());
    for (std::int64_t& count : rows) count = random() % 3 == 0 ? 0 : random() % 700;
    for (std::int64_t& width : d_ff) width = block * (1 + random() % 9);
    check_against_sort(row_layout_from_counts(rows, block), d_ff);
  }
}

TEST_CASE("block topology: no rows at all") {
  check_against_sort(row_layout_from_counts(Counts{0, 0, 0}, 64), Counts{128});
  check_against_sort(row_layout_from_ids(Indices(12, -1), 3, 16), Counts{16, 32, 48});
}

TEST_CASE("block topology: shapes that users of other libraries reported, at full size") {
  const auto routed = [](std::int64_t tokens, int top_k, int experts, std::int64_t block) {
    return row_layout_from_ids(random_expert_ids(tokens, top_k, experts, 17), experts, block);
  };
  SECTION("indices past int16") {
    check_against_sort(routed(4096, 1, 16, 128), Counts{4096});
    check_against_sort(row_layout_from_counts(Counts{40000}, 128), Counts{4096});
    const BlockTopology wide = block_topology(routed(64, 2, 64, 16), Counts{14336});
    CHECK(wide.block_columns == 57344);
    CHECK(*std::max_element(wide.column_indices.begin(), wide.column_indices.end()) > 32767);
  }
  SECTION("blocks of 64 and widths that 128 does not divide") {
    check_against_sort(routed(2048, 6, 64, 64), Counts{1408});
    check_against_sort(routed(2048, 6, 64, 64), Counts{192});
    CHECK_THROWS_AS(block_topology(routed(2048, 6, 64, 128), Counts{192}), Error);
  }
  SECTION("a width of many blocks with few rows") { check_against_sort(routed(8, 2, 8, 128), Counts{14336}); }
  SECTION("empty experts") {
    check_against_sort(row_layout_from_counts(Counts{0, 128, 0, 64}, 64), Counts{128});
    check_against_sort(row_layout_from_counts(Counts{162, 0, 2577, 446, 0, 83}, 128), Counts{768});
  }
  SECTION("group starts that are no multiple of 16 bytes") {
    check_against_sort(row_layout_from_counts(Counts{1, 7, 0, 9}, 16), Counts{48});
  }
  SECTION("one decoded token") { check_against_sort(routed(1, 8, 128, 64), Counts{768}); }
  SECTION("fine-grained experts") { check_against_sort(routed(4096, 8, 48, 128), Counts{128}); }
  SECTION("elements past 2^31") {
    const RowLayout layout = routed(131072, 8, 64, 128);
    const BlockTopology topology = block_topology(layout, Counts{2048});
    CHECK(topology.value_bytes(2) == layout.scheduled_rows * 2048 * 2);
    CHECK(topology.value_bytes(2) > (std::int64_t{1} << 32));
  }
}

TEST_CASE("block topology: a layout built for another block is refused") {
  RowLayout layout = row_layout_from_counts(Counts{128, 130, 65}, 64);
  layout.block = 128;
  CHECK_THROWS_WITH(block_topology(layout, Counts{128}), Catch::Contains("row_offsets"));
  // Every offset is a multiple of 32 here as well, but the experts' extents are those of another block.
  RowLayout finer = row_layout_from_counts(Counts{128, 130, 65}, 64);
  finer.block = 32;
  CHECK_THROWS_WITH(block_topology(finer, Counts{128}), Catch::Contains("row_offsets"));
}

TEST_CASE("block topology: refusals") {
  const RowLayout layout = row_layout_from_counts(Counts{3, 5}, 64);
  CHECK_THROWS_WITH(block_topology(layout, Counts{96}), Catch::Contains("d_ff") && Catch::Contains("96") &&
                                                            Catch::Contains("multiple of the block 64"));
  CHECK_THROWS_WITH(block_topology(layout, Counts{64, 100}), Catch::Contains("d_ff of expert 1"));
  CHECK_THROWS_WITH(block_topology(layout, Counts{0}), Catch::Contains("positive"));
  CHECK_THROWS_WITH(block_topology(layout, Counts{-64}), Catch::Contains("-64"));
  CHECK_THROWS_WITH(block_topology(layout, Counts{64, 64, 64}), Catch::Contains("3 widths"));
  CHECK_THROWS_WITH(block_topology(layout, Counts{}), Catch::Contains("0 widths"));
  for (const std::int64_t block : {1, 8, 48, 256})
    CHECK_THROWS_WITH(block_topology(row_layout_from_counts(Counts{3, 5}, block), Counts{768}),
                      Catch::Contains("16, 32, 64 or 128"));
}

TEST_CASE("block topology: what int32 indices cannot hold is refused before anything is built") {
  const std::int64_t limit = std::int64_t{1} << 31;
  CHECK_THROWS_WITH(block_topology(row_layout_from_counts(Counts{limit * 16}, 16), Counts{16}),
                    Catch::Contains("block rows"));
  CHECK_THROWS_WITH(block_topology(row_layout_from_counts(Counts{0}, 16), Counts{limit * 16}),
                    Catch::Contains("block columns"));
  CHECK_THROWS_WITH(block_topology(row_layout_from_counts(Counts{limit}, 16), Counts{256}),
                    Catch::Contains("non-zero blocks"));
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / 128 * 128;
  CHECK_THROWS_AS(block_topology(row_layout_from_counts(Counts{most}, 128), Counts{most}), Error);
  BlockTopology huge;
  huge.block = 128;
  huge.nonzero_blocks = limit - 1;
  CHECK(huge.value_bytes(2) == (limit - 1) * 128 * 128 * 2);
  CHECK_THROWS_AS(huge.value_bytes(most), Error);
}
