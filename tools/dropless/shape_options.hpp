// The options by which a command learns widths: --model, or --mlp --d-model --d-ff --dtype, or a mixture.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dropless/model_shape.hpp"

namespace CLI {
class App;
}

/// Lives as long as the command (its options point into it).
class ShapeOptions {
 public:
  explicit ShapeOptions(CLI::App& command);
  ShapeOptions(const ShapeOptions&) = delete;

  /// The model's shape with what was stated beside it put in its place, or nothing where no width was given.
  /// Its name says what was stated. Throws Error where a width is missing. experts and top_k are 0 where no
  /// model was named.
  std::optional<dropless::ModelShape> shape() const;

  /// The elements' type: the stated one, the model's, or the default.
  dropless::ElementType dtype() const;

  /// --model as typed.
  const std::string& model() const { return model_; }

 private:
  /// "d_model, d_ff": what stands on the command line beside or without a model.
  std::string stated_names() const;

  std::string model_, mlp_, dtype_;
  std::int64_t d_model_ = 0, d_ff_ = 0;
};
