// Axis names, the defaults for arrays that do not say theirs, and the checks of what the options say.
#include "traces/axis_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/array_spec.hpp"

namespace dropless {
namespace {

constexpr std::array<const char*, 8> axis_names = {"layer", "step", "sequence", "position",
                                                   "token", "slot", "expert",   "rank"};

}  // namespace

Axis axis_from_name(const std::string& name) {
  const auto* found = std::find(axis_names.begin(), axis_names.end(), name);
  if (found == axis_names.end())
    throw Error("axis", "'" + name + "'", fmt::format("one of {}", fmt::join(axis_names, ", ")));
  return static_cast<Axis>(found - axis_names.begin());
}

const char* axis_name(Axis axis) { return axis_names.at(static_cast<std::size_t>(axis)); }

namespace traces {
namespace {

/// No model has more, so an axis that is longer is not guessed to be the layers'.
constexpr std::int64_t most_guessed_layers = 256;

int position_of(const std::vector<Axis>& axes, Axis axis) {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

/// The first guess that gives a number of layers which a model may have.
std::vector<Axis> likely_axes(const std::vector<std::vector<Axis>>& guesses,
                              const std::vector<std::int64_t>& shape, const ArrayOrigin& origin) {
  for (const std::vector<Axis>& axes : guesses)
    if (shape[static_cast<std::size_t>(position_of(axes, Axis::layer))] <= most_guessed_layers) return axes;
  throw FileError(
      origin.path, origin.place,
      fmt::format("the shape {} does not tell which axis is the layers' (more than {} are not "
                  "guessed): name the axes with --axes, none of them layer where there is one layer",
                  shape_text(shape), most_guessed_layers));
}

std::vector<Axis> default_axes(const std::vector<std::int64_t>& shape, const ArrayOrigin& origin) {
  switch (shape.size()) {
    case 0:
      throw FileError(origin.path, origin.place,
                      "holds a single number, not an array of expert ids or counts");
    case 1:
      return {Axis::expert};
    case 2:
      return {Axis::token, Axis::slot};
    case 3:
      // vLLM's routed experts, else layers stacked one upon the other.
      return likely_axes({{Axis::token, Axis::layer, Axis::slot}, {Axis::layer, Axis::token, Axis::slot}},
                         shape, origin);
    case 4:
      // Our own traces, else gpt-oss's.
      return likely_axes({{Axis::layer, Axis::sequence, Axis::position, Axis::slot},
                          {Axis::sequence, Axis::position, Axis::layer, Axis::slot}},
                         shape, origin);
    default:
      throw FileError(
          origin.path, origin.place,
          fmt::format("the shape {} has {} axes, which --axes has to name", shape_text(shape), shape.size()));
  }
}

/// The axes that index a batch where the options do not say: sequences, else steps, else none.
std::vector<Axis> default_batch_axes(const std::vector<Axis>& axes) {
  for (const Axis axis : {Axis::sequence, Axis::step})
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) return {axis};
  return {};
}

}  // namespace

std::string axes_text(const std::vector<Axis>& axes) {
  std::string text;
  for (const Axis axis : axes) {
    if (!text.empty()) text += ',';
    text += axis_name(axis);
  }
  return text;
}

std::string assumed_axes(const std::string& of, const std::vector<Axis>& axes) {
  return fmt::format("The axes of {} were taken to be {} (state others with --axes).", of, axes_text(axes));
}

AxisPlan plan_axes(const std::vector<std::int64_t>& shape, const TraceOptions& options,
                   const ArrayOrigin& origin, std::vector<std::string>& assumptions) {
  AxisPlan plan;
  plan.axes = options.axes;
  if (plan.axes.empty()) {
    plan.axes = default_axes(shape, origin);
    assumptions.push_back(assumed_axes("the shape " + shape_text(shape), plan.axes));
  }
  const std::string given = axes_text(plan.axes);
  if (plan.axes.size() != shape.size())
    throw Error("axes", given, fmt::format("{} names for the shape {}", shape.size(), shape_text(shape)));
  for (std::size_t i = 0; i < plan.axes.size(); ++i)
    if (position_of(plan.axes, plan.axes[i]) != static_cast<int>(i))
      throw Error("axes", given, "each axis once");

  plan.layer = position_of(plan.axes, Axis::layer);
  plan.counts = position_of(plan.axes, Axis::expert) >= 0;
  plan.row = position_of(plan.axes, plan.counts ? Axis::expert : Axis::slot);
  if (plan.counts && position_of(plan.axes, Axis::slot) >= 0)
    throw Error("axes", given, "slot (expert ids) or expert (counts), not both");

  std::vector<Axis> batch_axes = options.batch_axes;
  if (options.batch_tokens > 0) {
    if (plan.counts)
      throw Error("batch_tokens", std::to_string(options.batch_tokens), "a trace of expert ids");
    if (options.batch_axes_given && !batch_axes.empty())
      throw Error("batch_tokens", std::to_string(options.batch_tokens), "no batch axes beside it");
    batch_axes.clear();
  } else if (!options.batch_axes_given) {
    batch_axes = default_batch_axes(plan.axes);
    assumptions.push_back(batch_axes.empty()
                              ? "Everything in a layer was taken as one batch."
                              : fmt::format("Each {} was taken as one batch.", axes_text(batch_axes)));
  }
  for (const Axis axis : batch_axes) {
    const int position = position_of(plan.axes, axis);
    if (position < 0 || position == plan.row || position == plan.layer)
      throw Error("batch axes", axes_text(batch_axes),
                  "axes of " + given + " other than layer, slot and expert");
  }
  for (int i = 0; i < static_cast<int>(plan.axes.size()); ++i) {
    if (i == plan.layer || i == plan.row) continue;
    const bool indexes_batch = position_of(batch_axes, plan.axes[static_cast<std::size_t>(i)]) >= 0;
    (indexes_batch ? plan.batch : plan.within).push_back(i);
  }
  return plan;
}

}  // namespace traces
}  // namespace dropless
