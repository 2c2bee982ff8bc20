// One sentence for each figure, printed by --explain metrics and carried in the JSON, and what the tables
// call it.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>

#include "dropless/report.hpp"
#include "dropless/row_tiles.hpp"

namespace dropless {
namespace {

std::string without_spaces(const std::string& label) {
  std::string letters;
  for (const char letter : label)
    if (letter != ' ' && letter != '_')
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return letters;
}

}  // namespace

const std::vector<MetricDefinition>& metric_definitions() {
  static const std::vector<MetricDefinition> definitions{
      {"batch",
       "the tokens of one layer that one call of the expert layer sees together; rows are counted within it",
       {"batches", "tokens of a batch"}},
      {"assignments", "(token, slot) pairs of all layers, unrouted ones included"},
      {"useful_rows",
       "assignments with an expert, summed over batches and, in totals, over layers that are not dense",
       {"useful", "useful rows (sum)"}},
      {"scheduled_rows",
       "rows for which the policy spends matrix arithmetic, padding included, summed over batches",
       {"scheduled"}},
      {"launched_rows",
       "rows that the policy's launch must cover, summed over batches; more than scheduled_rows where "
       "surplus tiles exit early",
       {"launches"}},
      {"dropped_rows",
       "useful rows that the policy does not compute; dropped % is their share of all useful rows",
       {"dropped %", "dropped % of"}},
      {"added_rows",
       "rows that the policy computes for (token, expert) pairs that the router did not choose",
       {"adds"}},
      {"padding_fraction",
       "1 - (kept + added rows) / scheduled rows, a ratio of sums over batches; 0 where nothing is "
       "scheduled",
       {"padding", "padding %", "padding % of"}},
      {"padding_p50",
       "median over batches with rows of a batch's own padding fraction; percentiles are interpolated "
       "linearly between the two nearest batches, to 100000 batches exactly, past them from bins of 1e-4",
       {"padding % of batches", "p50"}},
      {"padding_p95",
       "95th percentile over batches with rows of a batch's own padding fraction",
       {"padding % of batches", "p95"}},
      {"padding_p99",
       "99th percentile over batches with rows of a batch's own padding fraction",
       {"padding % of batches", "p99"}},
      {"padding_max", "largest padding fraction of any batch", {"padding % of batches", "max"}},
      {"metadata_bytes",
       "bytes of routing metadata by the formula of the policy's source, summed over batches with rows; "
       "null where unknown or where it needs widths or tokens that were not given"},
      {"useful_flops",
       "forward FLOPs of the expert MLP over the rows computed (kept + added): 4 n d_model d_ff for "
       "linear2, 6 n d_model d_ff for glu"},
      {"scheduled_flops", "the same over the scheduled rows"},
      {"padding_activation_bytes",
       "padding rows times the elements of a row in X and in the up product's output: what "
       "a layout that stores its padding holds",
       {"padding bytes", "padding in memory"}},
      {"weight_bytes",
       "weights of both products of every active expert, read once a batch",
       {"weights read"}},
      {"activation_bytes", "useful rows read and written once by both products", {"activations"}},
      {"active_experts",
       "(batch, expert) pairs with at least one row, over batches with rows; active / batch is their number "
       "in a mean batch",
       {"active", "active / batch", "active (batch, expert)"}},
      {"empty_experts",
       "(batch, expert) pairs without a row, over batches with rows; empty % is their share of all pairs",
       {"empty", "empty %"}},
      {"experts_never_used",
       "experts of a layer without a row in any batch; in totals, (layer, expert) pairs",
       {"never used"}},
      {"max_over_mean",
       "most rows of one expert / mean rows of all experts, within a batch; the mean over batches with "
       "rows",
       {"max / mean", "mean"}},
      {"max_over_mean_max", "the largest of the batches' max / mean", {"max / mean", "worst"}},
      {"coefficient_of_variation",
       "standard deviation over all experts (of the population) / mean rows, within a batch; "
       "the mean over batches with rows",
       {"CV"}},
      {"gini",
       "sum over ordered pairs of experts |rows_i - rows_j| / (2 E^2 mean rows), within a batch; the mean "
       "over "
       "batches with rows"},
      {"summed_max_over_mean",
       "max_over_mean of a layer's rows summed over batches first: skew that does not average out"},
      {"summed_coefficient_of_variation",
       "coefficient_of_variation of a layer's rows summed over batches first"},
      {"summed_gini", "gini of a layer's rows summed over batches first"},
      {"rows_per_expert",
       "in a layer, rows of each expert summed over batches; in the record, quantiles over (batch, "
       "expert) pairs, exact below 4096 rows, within 1/64 above"},
      {"rows_per_batch",
       "in the record, quantiles of a batch's rows over batches with rows, exact below 4096 rows, within "
       "1/64 above"},
      {"padding_by_block",
       "scheduled rows and padding fraction with every expert's rows rounded up to the block",
       {"padding % at block"}},
      {"ranks",
       "rows of each expert-parallel rank with contiguous ranges of experts, the first E mod N ranks one "
       "expert "
       "larger; max_over_mean over ranks within a batch, mean and maximum over batches"},
      {"placements",
       "experts on ranks contiguous, strided (expert e on rank e mod N), balanced (longest processing time "
       "first over the rows of the first half of a layer's batches, replicas for the heaviest experts, whose "
       "rows are split evenly) or from a file; max_over_mean is the rows of a batch's fullest rank / mean "
       "rows of a rank, over batches with rows",
       {"placement", "fullest / mean", "fullest / mean rank"}},
      {"fullest_rank_rows", "rows of each batch's fullest rank, summed over batches"},
      {"slowest_rank_time_us",
       "a model, not a measurement: time_us of each rank's rows in this library's tiles, of the rank that "
       "takes longest in a batch, summed over batches; p50, p95 and p99 are over batches with rows",
       {"slowest rank"}},
      {"sms",
       "multiprocessors of the GPU, each with one tile at a time: they decide waves, idle_share and "
       "idle_share_of_last_wave"},
      {"tiles",
       fmt::format("tiles of this library's up product, at most {} rows by {} columns (one column of tiles "
                   "where widths are not known), summed over batches",
                   tallest_tile_rows(RowTileRule{}), widest_tile_columns)},
      {"waves", "ceil(tiles / SMs) of each batch, summed"},
      {"idle_share_of_last_wave",
       "share of the SMs without a tile in a batch's last wave; the mean over batches"},
      {"idle_share", "1 - tiles / (waves * SMs), a ratio of sums"},
      {"longest_expert_share",
       "the fullest expert's share of the rows that this library schedules for a batch; the mean over "
       "batches"},
      {"longest_expert_share_max", "the largest of the batches' longest_expert_share"},
      {"time_us",
       "a model, not a measurement: each batch's two forward products take max(bytes of active weights and "
       "computed rows / bandwidth, scheduled FLOPs rounded up to whole waves / peak) each, plus an overhead; "
       "summed over batches; with widths and a hardware profile; vs first is its ratio to the first policy's",
       {"sum, us", "vs first", "modelled us of a batch", "modelled microseconds of a batch"}},
      {"time_p50_us",
       "median over batches with rows of a batch's time_us; percentiles are interpolated on a logarithmic "
       "scale between the two nearest batches, to 100000 batches exactly, past them from bins of 0.45 %",
       {"p50", "p50, us"}},
      {"time_p95_us", "95th percentile over batches with rows of a batch's time_us", {"p95", "p95, us"}},
      {"time_p99_us", "99th percentile over batches with rows of a batch's time_us", {"p99", "p99, us"}},
      {"memory_bound_share",
       "share of the batches with rows whose bytes take longer than their scheduled FLOPs",
       {"memory-bound %", "batches bound by memory"}},
      {"bound", "memory where memory_bound_share is at least a half, else compute"},
      {"unrouted",
       "ids below zero: nothing chosen, or a graph's padding token; no row is counted for them",
       {"unrouted ids"}},
      {"duplicate_rows", "tokens that name an expert more than once"},
      {"dense",
       "a layer whose counts are all zero, or whose every token repeats one expert: left out of the totals"},
      {"warmup_rows",
       "identical rows that a layer starts with, where 256 or more, summed over layers",
       {"warm-up rows"}},
  };
  return definitions;
}

std::vector<MetricDefinition> metrics_called(const std::string& label) {
  const auto matches = [wanted = without_spaces(label)](const std::string& name) {
    return without_spaces(name) == wanted;
  };
  const std::vector<MetricDefinition>& all = metric_definitions();
  std::vector<MetricDefinition> called;
  std::copy_if(all.begin(), all.end(), std::back_inserter(called), [&](const MetricDefinition& metric) {
    return matches(metric.name) || std::any_of(metric.labels.begin(), metric.labels.end(), matches);
  });
  return called;
}

}  // namespace dropless
