// The page's sections, top to bottom: facts, warnings, policies, pictures, layers, definitions, record.
#include "report/html_page.hpp"

#include <fmt/format.h>

#include <initializer_list>

#include "report/html_charts.hpp"
#include "report/html_curves.hpp"
#include "report/html_style.hpp"
#include "report/html_tables.hpp"
#include "report/html_text.hpp"

namespace dropless {
namespace {

using json = nlohmann::ordered_json;

std::string section(const std::string& heading, const std::string& note, const std::string& body) {
  if (body.empty()) return "";
  return fmt::format(
      "<section><h2>{}</h2>\n<p class=\"note\">{}</p>\n<div class=\"scroll\">{}</div></section>\n", heading,
      note, body);
}

/// Sections side by side where the page is wide enough.
std::string side_by_side(std::initializer_list<std::string> sections) {
  std::string grid;
  for (const std::string& one : sections) grid += one;
  return grid.empty() ? "" : "<div class=\"grid\">" + grid + "</div>\n";
}

std::string facts(const json& report) {
  const json& trace = member(report, "trace");
  const json& totals = member(report, "totals");
  std::string list = "<dl class=\"facts\">";
  const auto add = [&list](const char* name, const json& value,
                           std::string (*format)(const json&) = html_count) {
    if (!value.is_null() && value != 0)
      list += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, format(value));
  };
  add("experts", member(trace, "experts"));
  add("top-k", member(trace, "top_k"));
  add("layers", member(trace, "layers"));
  add("batches", member(trace, "batches"));
  add("tokens", member(trace, "tokens"));
  add("assignments", member(trace, "assignments"));
  add("useful rows", member(totals, "useful_rows"));
  add("active (batch, expert)", member(totals, "active_experts"));
  add("unrouted ids", member(trace, "unrouted"));
  add("warm-up rows", member(trace, "warmup_rows"));
  add("weights read", member(totals, "weight_bytes"), html_bytes);
  add("activations", member(totals, "activation_bytes"), html_bytes);
  return list + "</dl>\n";
}

std::string warnings(const json& trace) {
  std::string list;
  for (const json& warning : member(trace, "warnings"))
    list += "<li>" + html_escape(warning.is_string() ? warning.get<std::string>() : warning.dump()) + "</li>";
  if (list.empty()) return "";
  return "<section class=\"warnings\"><h2>Read this first</h2><ul>" + list + "</ul></section>\n";
}

/// The curves of a sweep; the page's other figures are those of one of its sizes.
std::string sweeps(const json& sweep) {
  const json& sizes = member(sweep, "batch_tokens");
  std::string pictures;
  if (!sizes.empty())
    pictures += section(
        "Padding by batch size",
        fmt::format(
            "The trace cut into batches of each size. Every other figure of this page is of batches of {} "
            "tokens.",
            html_count(member(sizes.back(), "batch_tokens"))),
        batch_padding_chart(sizes));
  if (!sizes.empty())
    pictures +=
        section("Time by batch size",
                "Both forward products of a batch, mean over batches: a model, not a measurement. A policy "
                "that drops every row of some size is left out.",
                batch_time_chart(sizes));
  for (const json& curve : member(sweep, "capacity"))
    pictures +=
        section("Capacity factor: " + html_words(curve, "system"),
                "What a larger factor pads and a smaller one drops, over all layers.", capacity_chart(curve));
  return side_by_side({pictures});
}

std::string record(const char* heading, const json& value) {
  if (!value.is_object() || value.empty()) return "";
  return fmt::format("<section><h2>{}</h2>{}</section>\n", heading, record_list(value));
}

}  // namespace

std::string html_page(const json& report) {
  const json& trace = member(report, "trace");
  const json& totals = member(report, "totals");
  const json& layers = member(report, "layers");
  const json& batches = member(report, "batches");
  const std::string path = html_words(trace, "path");
  const bool cumulative = member(trace, "cumulative") == true;
  const std::string padding_note =
      cumulative ? "These counts were gathered over a whole run, so their padding says nothing about batches."
                 : "Padding is the share of the scheduled rows that holds no assignment, a ratio of sums; "
                   "p50 to max "
                   "are over batches.";
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  page +=
      fmt::format("<title>Routing report: {}</title>\n<style>{}</style></head><body>\n", path, html_style);
  page += fmt::format(
      "<header><h1>What this routing trace costs</h1>\n<p class=\"note\"><code>{}</code> · "
      "{}</p>\n{}</header>\n"
      "<main>\n",
      path, html_words(trace, "format"), facts(report));
  page += warnings(trace);
  page += section("Layout policies", "Rows for which each system spends matrix arithmetic. " + padding_note,
                  policy_table(member(totals, "policies"), !cumulative));
  page += section("Layout policies without the warm-up", "The same with the identical first rows left out.",
                  policy_table(member(member(totals, "without_warmup"), "policies"), !cumulative));
  const json& timed =
      member(totals, "without_warmup").is_object() ? member(totals, "without_warmup") : totals;
  if (!cumulative)
    page +=
        section("Time of both forward products",
                "A model, not a measurement, warm-up left out: bytes over bandwidth or scheduled arithmetic "
                "over peak, whichever takes longer, batch by batch.",
                time_table(member(timed, "policies")));
  const json& advice = member(report, "what_to_do");
  page += section("What to do", "Each statement names the figures that it rests on.",
                  advice.is_array() ? record_list(advice) : "");
  page += sweeps(member(report, "sweep"));
  page += section(
      "Rows per expert",
      "Each expert's rows over the whole trace as a multiple of the mean of its layer: 1 is balanced.",
      heat_map_chart(layers));
  std::string padding_by_block, padding_of_batches;
  if (!cumulative) {
    padding_by_block = padding_chart(member(totals, "padding_by_block"), layers);
    padding_of_batches = padding_histogram_chart(member(batches, "padding_histogram"));
  }
  page += side_by_side(
      {section("Padding by block size",
               "Padding where each expert's rows of a batch are rounded up to the block.", padding_by_block),
       section("Padding of the batches",
               "How many batches waste which share of their rows at a block of 128.", padding_of_batches),
       section("Rows of the batches", "How many batches hold how many useful rows.",
               rows_histogram_chart(member(batches, "rows_histogram")))});
  const json& ranks = member(totals, "ranks");
  page += section(
      "Experts on " + html_count(member(ranks, "ranks")) + " ranks",
      "Rows of a batch's fullest rank / mean rows of a rank, over batches with rows, warm-up left out; "
      "the time of the slowest rank is a model, not a measurement.",
      placement_table(member(ranks, "placements")));
  page += section("Layers", "Imbalance of each layer; the definitions stand below.", layer_table(layers));
  page +=
      side_by_side({record("Model", member(report, "model")), record("Hardware", member(report, "hardware")),
                    record("Tiles and waves", member(totals, "tiles"))});
  page += record("Definitions", member(report, "definitions"));
  page += record("Record", member(report, "record"));
  return page + "</main>\n<footer><p>Written by <code>dropless report</code>.</p></footer>\n</body></html>\n";
}

}  // namespace dropless
