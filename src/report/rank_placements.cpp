// The comparison of placements.
#include "report/rank_placements.hpp"

#include <algorithm>

#include "dropless/cost.hpp"

namespace dropless {
namespace {

std::vector<std::vector<std::int64_t>> same_in_every_layer(const std::vector<std::int64_t>& slots,
                                                           std::size_t layers) {
  return std::vector<std::vector<std::int64_t>>(layers, slots);
}

}  // namespace

RankPlacements::RankPlacements(const ReportOptions& options, const TraceInfo& trace)
    : options_(options), experts_(trace.experts), layer_numbers_(trace.layers) {
  const std::string& wanted = options.placement;
  if (options.ranks == 0) {
    if (!wanted.empty() || options.replicas != 0)
      throw Error("ranks", "0", "1 or more with a placement or replicas");
    return;
  }
  balanced_ = wanted == "balanced";
  if (options.replicas != 0 && !balanced_)
    throw Error("replicas", std::to_string(options.replicas), "0 unless the placement is balanced");
  if (options.replicas < 0 || options.replicas > experts_ * (options.ranks - 1))
    throw Error("replicas", std::to_string(options.replicas),
                "0 to a copy on every rank, " + std::to_string(experts_ * (options.ranks - 1)));
  const std::size_t layers = layer_numbers_.size();
  for (std::size_t i = 0; i < layers; ++i) layers_[layer_numbers_[i]] = i;
  candidates_.push_back(
      {"contiguous", same_in_every_layer(contiguous_placement(experts_, options.ranks), layers)});
  candidates_.push_back({"strided", same_in_every_layer(strided_placement(experts_, options.ranks), layers)});
  if (!wanted.empty() && wanted != "contiguous" && wanted != "strided" && !balanced_)
    candidates_.push_back({"file", read_file(options)});
}

std::vector<std::vector<std::int64_t>> RankPlacements::read_file(const ReportOptions& options) const {
  const std::string& path = options.placement;
  const Placement placement = read_placement(path, experts_);
  if (placement.ranks > 0 && placement.ranks != options.ranks)
    throw FileError(path, "ranks",
                    "is " + std::to_string(placement.ranks) + ", but the report has " +
                        std::to_string(options.ranks) + " ranks");
  const std::size_t held = placement.physical_to_logical.size();
  std::vector<std::vector<std::int64_t>> layers;
  for (const std::int64_t layer : layer_numbers_) {
    // Without layer numbers the rows are the trace's layers in order, or else all layers of the model.
    std::size_t row = held == layer_numbers_.size() ? layers.size() : static_cast<std::size_t>(layer);
    if (!placement.layers.empty())
      row = static_cast<std::size_t>(std::find(placement.layers.begin(), placement.layers.end(), layer) -
                                     placement.layers.begin());
    if (row >= held)
      throw FileError(path, placement.layers.empty() ? "physical_to_logical_map" : "layers",
                      "has no layer " + std::to_string(layer) + ", which the trace has");
    layers.push_back(placement.physical_to_logical[row]);
  }
  return layers;
}

BatchSink& RankPlacements::first_read(BatchSink& next, int workers) {
  if (!balanced_) return next;
  spans_ = std::make_unique<BatchSpans>(next, layers_, workers);
  return *spans_;
}

std::vector<PlacementFigures> RankPlacements::figures(const RankBalanceSums& first,
                                                      const RankBalanceSums& second, bool exact,
                                                      std::int64_t layers) const {
  RankBalanceSums all(candidates_.size(), exact, options_.time && options_.model);
  all.add(first);
  all.add(second);
  std::vector<PlacementFigures> list;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    PlacementFigures out;
    out.placement = candidates_[i].name;
    if (!candidates_[i].layers.empty())
      out.replicas = static_cast<std::int64_t>(candidates_[i].layers.front().size()) - experts_;
    if (const auto& model = options_.model)
      out.extra_weight_bytes =
          static_cast<double>(layers * out.replicas) *
          static_cast<double>(expert_weight_bytes(model->mlp, model->d_model, model->d_ff, model->dtype));
    out.all = all.figures(i, options_.ranks);
    if (balanced_) {
      out.first_half = first.figures(i, options_.ranks);
      out.second_half = second.figures(i, options_.ranks);
    }
    list.push_back(std::move(out));
  }
  return list;
}

void RankPlacements::score(Report& report, Trace& trace, int workers, Progress progress, void* context) {
  std::vector<std::int64_t> ends;
  if (balanced_) {
    ends = spans_->second_halves();
    report.layers_without_second_half = spans_->layers_without_second_half();
    FirstHalfRows fitted_on(layers_, ends, experts_, workers);
    trace.read(fitted_on, workers, progress, context);
    candidates_.push_back({"balanced", {}});
    for (std::size_t i = 0; i < layer_numbers_.size(); ++i)
      candidates_.back().layers.push_back(
          balanced_placement(fitted_on.layer(i), options_.ranks, options_.replicas));
  }
  std::vector<std::vector<RankRows>> placements;
  for (const Candidate& candidate : candidates_) {
    placements.emplace_back();
    for (const auto& slots : candidate.layers)
      placements.back().emplace_back(slots, experts_, options_.ranks);
  }
  const bool exact = report.exact_percentiles;
  RankScores scores(layers_, ends, placements, options_, exact, workers);
  trace.read(scores, workers, progress, context);

  const bool timed = options_.time && options_.model;
  RankBalanceSums first(candidates_.size(), exact, timed), second(candidates_.size(), exact, timed);
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < report.layers.size(); ++i) {
    const RankBalanceSums layer_first = scores.layer(i, 0), layer_second = scores.layer(i, 1);
    report.layers[i].figures.ranks->placements = figures(layer_first, layer_second, exact, 1);
    if (report.layers[i].dense) continue;
    ++layers;
    first.add(layer_first);
    second.add(layer_second);
  }
  report.totals.ranks->placements = figures(first, second, exact, layers);
  const Candidate& chosen = options_.placement == "strided" || candidates_.size() == 3
                                ? candidates_[candidates_.size() - 1]
                                : candidates_.front();
  report.placement = Placement{options_.ranks, layer_numbers_, chosen.layers};
}

}  // namespace dropless
