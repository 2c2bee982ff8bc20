// The HTML page of a report: every text escaped, nothing fetched, elements closed, absent parts left out.
#include <regex>

#include "catch.hpp"
#include "report/html_page.hpp"
#include "report/html_text.hpp"

using namespace dropless;
using json = nlohmann::ordered_json;

namespace {

json small_report() {
  return json::parse(R"({
    "schema_version": 1,
    "trace": {"path": "a<b>&\"c'.npy", "format": "npy", "experts": 3, "top_k": 2, "layers": 1, "batches": 2,
              "tokens": 1234567, "unrouted": 0, "warnings": ["<script>alert(1)</script>"]},
    "model": {"name": "<i>model</i>", "d_ff": 256}, "hardware": null,
    "totals": {"useful_rows": 260, "policies": [
        {"policy": "block:128", "source": "<b>", "scheduled_rows": 512, "launched_rows": 512, "dropped_rows": 0,
         "padding_fraction": 0.4921875, "metadata_bytes": null, "useful_flops": 2500000000000}],
      "padding_by_block": [{"block": 64, "padding_fraction": 0.2}, {"block": 128, "padding_fraction": 0.5}]},
    "layers": [{"layer": 5, "useful_rows": 260, "gini": 0.25, "rows_per_expert": [0, 250, 10],
                "padding_by_block": [{"block": 64, "padding_fraction": 0.2}, {"block": 128, "padding_fraction": 0.5}]}],
    "batches": {"rows_histogram": [{"rows_at_least": 128, "rows_below": 256, "batches": 2}],
                "padding_histogram": [{"padding_at_least": 0.45, "padding_below": 0.5, "batches": 2}]},
    "definitions": {"padding_fraction": "a < b"},
    "record": {"not_included": ["time", "<u>"], "rows": {"mean": 86.5}}})");
}

/// Every element is closed in the order in which it was opened; void elements aside.
bool is_balanced(const std::string& page) {
  std::vector<std::string> open;
  const std::regex tag("<(/?)([a-z0-9]+)([^>]*)>");
  for (std::sregex_iterator match(page.begin(), page.end(), tag), end; match != end; ++match) {
    const std::string name = (*match)[2], rest = (*match)[3];
    if (name == "meta" || name == "br" || (!rest.empty() && rest.back() == '/')) continue;
    if ((*match)[1].length() == 0) {
      open.push_back(name);
    } else {
      if (open.empty() || open.back() != name) return false;
      open.pop_back();
    }
  }
  return open.empty();
}

}  // namespace

TEST_CASE("html page: texts are escaped and nothing is fetched") {
  const std::string page = html_page(small_report());
  for (const char* raw : {"<script", "<b>", "<i>model", "<u>", "a<b>", "http:", "https:", "src=", "url("})
    CHECK_THAT(page, !Catch::Contains(raw));
  CHECK_THAT(page, Catch::Contains("a&lt;b&gt;&amp;&quot;c&#39;.npy"));
  CHECK_THAT(page, Catch::Contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
  CHECK(is_balanced(page));
}

TEST_CASE("html page: the figures stand in it as people read them") {
  const std::string page = html_page(small_report());
  for (const char* figure :
       {"1,234,567", "49.2 %", "2.5 TFLOP", "layer 5, expert 1: 250 rows, 2.88 of the mean",
        "2 batches with 128 rows or more and fewer than 256", "86.50"})
    CHECK_THAT(page, Catch::Contains(figure));
  // No policy launches more than it schedules or drops a row, so neither column is shown.
  CHECK_THAT(page, !Catch::Contains("launched") && !Catch::Contains("dropped"));
}

TEST_CASE("html page: an expert without rows has a colour of its own") {
  const std::string page = html_page(small_report());
  CHECK_THAT(page, Catch::Contains("<rect class=\"h0\""));
  CHECK_THAT(page, Catch::Contains("expert 0: 0 rows"));
}

TEST_CASE("html page: experts past the width of the picture share cells, and the page says so") {
  json report = small_report();
  report["layers"][0]["rows_per_expert"] = std::vector<int>(4096, 1);
  report["layers"][0]["rows_per_expert"][4095] = 900;
  const std::string page = html_page(report);
  CHECK_THAT(page, Catch::Contains("Each cell stands for 16 neighbouring experts"));
  CHECK_THAT(page, Catch::Contains("expert 4095: 900 rows"));
}

TEST_CASE("html page: what a document lacks is left out") {
  for (const char* document :
       {"{}", "null", R"({"trace": null, "totals": {"policies": []}, "layers": []})"}) {
    const std::string page = html_page(json::parse(document));
    CHECK(is_balanced(page));
    CHECK_THAT(page, !Catch::Contains("<section") && !Catch::Contains("<svg"));
  }
  json report = small_report();
  report["trace"]["cumulative"] = true;
  const std::string page = html_page(report);
  CHECK_THAT(page, Catch::Contains("says nothing about batches") && Catch::Contains("not meaningful"));
  CHECK_THAT(page, !Catch::Contains("49.2 %") && !Catch::Contains("Padding by block size"));
}

TEST_CASE("html text: numbers") {
  CHECK(html_count(0) == "0");
  CHECK(html_count(999) == "999");
  CHECK(html_count(-1234567) == "-1,234,567");
  CHECK(html_count(nullptr) == "–");
  CHECK(html_bytes(3147776) == "3.15 MB");
  CHECK(html_bytes(12) == "12 B");
  CHECK(html_bytes(999999) == "1 MB");
  CHECK(html_short_count(4096) == "4.1k");
  CHECK(html_percent(0.490234375) == "49.0 %");
  CHECK(html_flops("text") == "–");
}
