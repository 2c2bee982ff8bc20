// CSV as people write it: steps, names in any case, marks in front, columns nobody reads, rows said twice.
#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;
using Catch::Matchers::Contains;
using Rows = std::vector<std::int64_t>;
using Sentences = std::vector<std::string>;

TEST_CASE("csv: a step of a layer is a batch, of counts and of ids", "[trace][csv]") {
  const KeptTrace counts = keep_text("t.csv",
                                     "step,layer_id,expert_id,count\n"
                                     "0,3,1,5\n0,3,0,2\n0,4,2,9\n"
                                     "7,3,2,1\n7,4,0,4\n7,4,1,3\n");
  CHECK(counts.info.counts_only);
  CHECK_FALSE(counts.info.cumulative);
  CHECK(counts.info.experts == 3);
  CHECK(counts.info.experts_inferred);
  CHECK(counts.info.assumptions == Sentences{"Experts that the file does not name have no rows.",
                                             "Each step of a layer was taken as one batch."});
  CHECK(counts.info.warnings.empty());
  REQUIRE(counts.batches.size() == 4);
  CHECK(counts.rows(3, 0) == Rows{2, 5, 0});
  CHECK(counts.rows(3, 1) == Rows{0, 0, 1});
  CHECK(counts.rows(4, 0) == Rows{0, 0, 9});
  CHECK(counts.rows(4, 1) == Rows{4, 3, 0});

  const std::string ids = "step,layer_id,expert_ids\n0,0,1 2\n0,1,3 0\n0,0,2 3\n1,0,\"[0, 1]\"\n1,1,2 1\n";
  const KeptTrace tokens = keep_text("t.csv", ids);
  CHECK(tokens.info.assumptions == Sentences{"Each step of a layer was taken as one batch."});
  REQUIRE(tokens.batches.size() == 4);
  CHECK(tokens.rows(0, 0) == Rows{0, 1, 2, 1});
  CHECK(tokens.rows(0, 1) == Rows{1, 1, 0, 0});
  CHECK(tokens.batches.at({0, 0}).tokens == 2);
  TraceOptions options;
  options.batch_axes_given = true;
  CHECK(keep_text("t.csv", ids, options).rows(0, 0) == Rows{1, 2, 2, 1});
  CHECK(keep_text("t.csv", ids, options).info.assumptions.empty());
  options.batch_axes = {Axis::step};
  CHECK(keep_text("t.csv", ids, options).rows(1, 1) == Rows{0, 1, 1, 0});
}

TEST_CASE("csv: a layer's steps ascend, each layer for itself", "[trace][csv]") {
  CHECK(keep_text("t.csv", "iteration,layer,expert_id,count\n0,0,0,1\n1,0,0,2\n0,1,0,3\n1,1,0,4\n")
            .rows(1, 1) == Rows{4});
  CHECK_THROWS_WITH(
      keep_text("t.csv", "step,layer_id,expert_id,count\n0,0,0,1\n5,0,0,2\n0,0,1,3\n"),
      Contains(": line 4: step 0 of layer 0 after its step 5; steps are read in ascending order"));
  CHECK_THROWS_WITH(keep_text("t.csv", "step,layer_id,expert_ids\n-1,0,1\n"),
                    Contains(": line 2: the step -1 is negative"));
}

TEST_CASE("csv: names in any case, blanks, quotes and a byte order mark are no matter", "[trace][csv]") {
  const std::string rows = "0,0,1,5\r\n";
  for (const std::string header :
       {"Step, Layer_ID , EXPERT_ID,\tCount ", "\"step\",\" layer_id \",Expert_Id,count",
        "\xef\xbb\xbfstep,layer_id,expert_id,count", "Iteration,Layer_Number,expert_id,count"}) {
    CAPTURE(header);
    CHECK(keep_text("t.csv", header + "\r\n" + rows).rows(0, 0) == Rows{0, 5});
  }
  CHECK_THROWS_WITH(keep_text("t.csv", "\xef\xbb\xbf"), Contains("an empty file"));
  CHECK_THROWS_WITH(keep_text("t.csv", "layer,expert_ids,Layer_ID\n"),
                    Contains(": line 1: the columns 'layer' and 'Layer_ID' name the same"));
  CHECK_THROWS_WITH(keep_text("t.csv", "layer,expert_ids,expert_id,count\n"),
                    Contains(": line 1: the header has columns of counts and of expert ids"));
}

TEST_CASE("csv: columns that are not read are named, rows that are said twice counted", "[trace][csv]") {
  const KeptTrace tokens = keep_text("t.csv", "layer_id,Token,expert_ids,gate\n0,17,1 2,0.5\n");
  CHECK(tokens.info.assumptions ==
        Sentences{"The file has no batch boundaries: everything in a layer was taken as one batch.",
                  "Columns not read: 'token', 'gate'."});
  const KeptTrace once = keep_text("t.csv", "layer_id,expert_id,count\n0,0,5\n0,0,7\n1,1,0\n");
  CHECK(once.rows(0, 0) == Rows{12, 0});
  CHECK(once.info.warnings ==
        Sentences{"1 row names a layer and expert that an earlier row names: their counts were summed"});
  CHECK(
      keep_text("t.csv", "step,layer_id,expert_id,count\n0,0,0,0\n0,0,0,7\n1,0,0,1\n1,0,0,1\n")
          .info.warnings ==
      Sentences{"2 rows name a step, layer and expert that an earlier row names: their counts were summed"});
}
