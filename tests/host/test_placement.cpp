// Placements of experts on ranks: small ones by hand, and what holds for every placement of random rows.
#include <algorithm>
#include <numeric>
#include <random>

#include "catch.hpp"
#include "dropless/error.hpp"
#include "dropless/placement.hpp"
#include "temporary_folder.hpp"

using namespace dropless;
using List = std::vector<std::int64_t>;

namespace {

std::int64_t most(const List& slots, std::int64_t ranks, const List& rows) {
  return RankRows(slots, static_cast<std::int64_t>(rows.size()), ranks).most(rows);
}

/// Writes `text` and reads it as a placement of 4 experts.
Placement read_text(const TemporaryFolder& folder, const std::string& text) {
  return read_placement(folder.write("placement.json", text), 4);
}

}  // namespace

TEST_CASE("placement: slots of ranks, contiguous and strided") {
  CHECK(contiguous_placement(5, 2) == List{0, 1, 2, 3, 4});
  CHECK(first_slot_of_rank(1, 2, 5) == 3);
  CHECK(strided_placement(5, 2) == List{0, 2, 4, 1, 3});
  const RankRows strided(strided_placement(5, 2), 5, 2);
  const List rows{1, 2, 4, 8, 16};
  CHECK(strided.of_rank(0, rows) == 1 + 4 + 16);
  CHECK(strided.of_rank(1, rows) == 2 + 8);
  CHECK(strided.most(rows) == 21);
}

TEST_CASE("placement: balanced by hand") {
  // Heaviest first: 9 to rank 0, 7 to rank 1, 6 to rank 1 (7 < 9), 2 to rank 0.
  CHECK(balanced_placement(List{9, 7, 6, 2}, 2, 0) == List{0, 3, 1, 2});
  CHECK(most(List{0, 3, 1, 2}, 2, {9, 7, 6, 2}) == 13);
  // Rank 1 is full after two experts of one row, so the last one joins the 8.
  CHECK(balanced_placement(List{8, 1, 1, 1}, 2, 0) == List{0, 3, 1, 2});
  // The replicas go to expert 0, which then has a copy on every rank, and to expert 1. Copies of 6, 6, 4, 4,
  // 3 and 1 rows; the 3 goes where expert 1 has no copy yet.
  const List replicated = balanced_placement(List{12, 7, 4, 1}, 2, 2);
  CHECK(replicated == List{0, 1, 3, 0, 2, 1});
  CHECK(most(replicated, 2, {12, 7, 4, 1}) == 6 + 4 + 3);
}

TEST_CASE("placement: rows of copies are split evenly, what is left over to the first") {
  const RankRows rows(List{0, 1, 0, 2, 0, 1}, 3, 3);
  CHECK(rows.of_rank(0, List{8, 5, 1}) == 3 + 3);
  CHECK(rows.of_rank(1, List{8, 5, 1}) == 3 + 1);
  CHECK(rows.of_rank(2, List{8, 5, 1}) == 2 + 2);
}

TEST_CASE("placement: packing that loses to contiguous experts is not taken") {
  // Packed: 3 | 3, then 2 to either, leaving 2 + 2 beside a 3. Contiguous: 3 + 3 | 2 + 2 + 2 is even.
  const List rows{3, 3, 0, 2, 2, 2};
  CHECK(most(balanced_placement(rows, 2, 0), 2, rows) == 6);
  CHECK(most(balanced_placement(rows, 2, 2), 2, rows) == 6);
}

TEST_CASE("placement: random rows") {
  std::mt19937 random(7);
  for (int repeat = 0; repeat < 400; ++repeat) {
    const auto experts = static_cast<std::int64_t>(1 + random() % 40);
    const auto ranks = static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(experts));
    const std::int64_t replicas =
        std::min<std::int64_t>(experts * (ranks - 1), static_cast<std::int64_t>(random() % 12));
    List rows(static_cast<std::size_t>(experts));
    for (std::int64_t& count : rows) {
      count = static_cast<std::int64_t>(random() % 50);
      if (random() % 4 == 0) count *= static_cast<std::int64_t>(random() % 30);
    }
    CAPTURE(experts, ranks, replicas, rows);
    const std::int64_t contiguous = most(contiguous_placement(experts, ranks), ranks, rows);
    for (const List& slots : {contiguous_placement(experts, ranks), strided_placement(experts, ranks),
                              balanced_placement(rows, ranks, replicas)}) {
      List seen(rows.size());
      for (const std::int64_t expert : slots) ++seen[static_cast<std::size_t>(expert)];
      CHECK(*std::min_element(seen.begin(), seen.end()) >= 1);
      const RankRows of_ranks(slots, experts, ranks);
      std::int64_t sum = 0, fullest = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        sum += of_ranks.of_rank(rank, rows);
        fullest = std::max(fullest, of_ranks.of_rank(rank, rows));
      }
      CHECK(sum == std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
      CHECK(fullest == of_ranks.most(rows));
    }
    const List balanced = balanced_placement(rows, ranks, replicas);
    CHECK(static_cast<std::int64_t>(balanced.size()) == experts + replicas);
    CHECK(most(balanced, ranks, rows) <= contiguous);
  }
}

TEST_CASE("placement: refusals") {
  CHECK_THROWS_WITH(strided_placement(4, 5), "ranks is 5; expected 1 to the number of experts, 4");
  CHECK_THROWS_WITH(balanced_placement(List{1, 2, 3, 4}, 2, 5),
                    "replicas is 5; expected 0 to a copy on every rank, 4");
  CHECK_THROWS_WITH(RankRows(List{0, 1, 1}, 3, 1),
                    "the placement of expert 2 is missing; expected a slot on some rank");
  CHECK_THROWS_WITH(RankRows(List{0, 3}, 2, 1), "an expert of a placement is 3; expected 0 to 1");
}

TEST_CASE("placement: a file that was written is read back") {
  const TemporaryFolder folder;
  Placement placement;
  placement.ranks = 2;
  placement.layers = {3, 5};
  placement.physical_to_logical = {{0, 1, 2, 3, 0, 1}, {3, 2, 1, 0, 3, 3}};
  const Placement read = read_text(folder, placement_json(placement, {{1, 2, 3, 4}, {5, 6, 7, 8}}));
  CHECK(read.ranks == 2);
  CHECK(read.layers == placement.layers);
  CHECK(read.physical_to_logical == placement.physical_to_logical);
  const Placement plain = read_text(folder, R"({"physical_to_logical_map": [[3, 2, 1, 0]], "other": 1})");
  CHECK(plain.ranks == 0);
  CHECK(plain.layers.empty());
  CHECK(plain.physical_to_logical == std::vector<List>{{3, 2, 1, 0}});
}

TEST_CASE("placement: files are refused with place and reason") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      read_text(folder, text);
    } catch (const FileError& error) {
      return error.place() + ": " + error.reason();
    }
    return "";
  };
  CHECK(refusal("{") == "byte 2: is not JSON");
  CHECK(refusal("[1]") == ": is no JSON object");
  CHECK(refusal(R"({"physical_to_logical_map": 1e999})") == ": is JSON with a number that no type holds");
  CHECK(refusal("{}") == "physical_to_logical_map: is missing");
  CHECK(refusal(R"({"physical_to_logical_map": 3})") == "physical_to_logical_map: is no list with elements");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 2.5, 3]]})") ==
        "physical_to_logical_map[0][2]: is no whole number");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 2, 3], [0, 1, 2, 4]]})") ==
        "physical_to_logical_map[1][3]: is expert 4, but the trace has experts 0 to 3");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 3, 3]]})") ==
        "physical_to_logical_map[0]: has no slot for expert 2");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 2, 3], [0, 1, 2, 3, 0]]})") ==
        "physical_to_logical_map[1]: has 5 slots, but the first layer has 4");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 2, 3]], "layers": [1, 2]})") ==
        "layers: names 2 layers, but physical_to_logical_map has 1");
  CHECK(refusal(R"({"physical_to_logical_map": [[0, 1, 2, 3]], "ranks": 9})") ==
        "ranks: is 9, but there are 4 experts");
  CHECK_THROWS_WITH(read_placement(folder.path(""), 4), folder.path("") + ": is a folder");
  CHECK_THROWS_WITH(
      read_placement(folder.path("none.json"), 4),
      folder.path("none.json") + ": cannot be opened (placements by name are contiguous, strided, balanced)");
  const std::string too_long(300, 'a');
  CHECK_THROWS_WITH(read_placement(too_long, 4),
                    too_long + ": cannot be opened (placements by name are contiguous, strided, balanced)");
}
