// Widths from the command line.
#include "shape_options.hpp"

#include <CLI/CLI.hpp>

#include "above_zero.hpp"

using namespace dropless;

ShapeOptions::ShapeOptions(CLI::App& command) {
  command.add_option("--model", model_, "Known model (data/models.json) or a Hugging Face config.json");
  command.add_option("--mlp", mlp_, "Kind of the expert MLP: linear2 (4ndh FLOPs) or glu (6ndh)");
  command.add_option("--d-model", d_model_, "Hidden size")->check(above_zero);
  command.add_option("--d-ff", d_ff_, "Width of one expert")->check(above_zero);
  command.add_option("--dtype", dtype_, "Element type: bf16 (the default), fp16 or fp32");
}

std::string ShapeOptions::stated_names() const {
  std::string names;
  for (const auto& [stated, name] : {std::pair{!mlp_.empty(), "mlp"},
                                     {d_model_ > 0, "d_model"},
                                     {d_ff_ > 0, "d_ff"},
                                     {!dtype_.empty(), "dtype"}})
    if (stated) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

std::optional<ModelShape> ShapeOptions::shape() const {
  const bool stated = !mlp_.empty() || !dtype_.empty() || d_model_ > 0 || d_ff_ > 0;
  if (model_.empty() && !stated) return std::nullopt;
  ModelShape shape;
  // Words that name nothing are refused whatever else is missing.
  const MlpKind mlp = mlp_.empty() ? MlpKind{} : mlp_kind_from_name(mlp_);
  const ElementType dtype = dtype_.empty() ? ElementType{} : element_from_name(dtype_);
  if (!model_.empty())
    shape = find_model_shape(model_);
  else if (mlp_.empty() || d_model_ == 0 || d_ff_ == 0)
    throw Error("the model's shape", "incomplete", "--mlp, --d-model and --d-ff together, or --model");
  if (!mlp_.empty()) shape.mlp = mlp;
  if (!dtype_.empty()) shape.dtype = dtype;
  if (d_model_ > 0) shape.d_model = d_model_;
  if (d_ff_ > 0) shape.d_ff = d_ff_;
  if (stated && !model_.empty()) shape.name += "; " + stated_names() + " from the command line";
  if (stated) shape.source += shape.source.empty() ? "the command line" : ", changed on the command line";
  if (model_.empty()) shape.name = "widths from the command line";
  return shape;
}

ElementType ShapeOptions::dtype() const {
  if (!dtype_.empty()) return element_from_name(dtype_);
  return model_.empty() ? ModelShape{}.dtype : find_model_shape(model_).dtype;
}
