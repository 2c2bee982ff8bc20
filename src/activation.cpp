// Which activations there are, and which parameters each of them has.
#include "dropless/activation.hpp"

#include <fmt/format.h>

#include <cmath>

#include "dropless/error.hpp"

namespace dropless {

const char* activation_function_name(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::silu:
      return "silu";
    case ActivationFunction::gelu_erf:
      return "gelu_erf";
    case ActivationFunction::gelu_tanh:
      return "gelu_tanh";
    case ActivationFunction::relu:
      return "relu";
    case ActivationFunction::relu_squared:
      return "relu_squared";
  }
  throw Error("activation function", std::to_string(static_cast<std::int32_t>(function)),
              "silu, gelu_erf, gelu_tanh, relu or relu_squared");
}

void check_activation(const Activation& activation, MlpKind kind) {
  const std::string name = activation_function_name(activation.function);
  const bool glu = kind == MlpKind::glu;
  const auto require = [](bool holds, const char* argument, float value, const std::string& expectation) {
    if (!holds) throw Error(std::string("activation.") + argument, fmt::format("{}", value), expectation);
  };
  if (glu && activation.function == ActivationFunction::relu_squared)
    throw Error("activation.function", name, "a function of glu; relu_squared is one of linear2 only");

  if (activation.function == ActivationFunction::silu)
    require(activation.alpha > 0 && std::isfinite(activation.alpha), "alpha", activation.alpha,
            "a finite number above 0");
  else
    require(activation.alpha == 1, "alpha", activation.alpha, "1, as " + name + " has no alpha");

  if (glu) {
    require(activation.limit > 0, "limit", activation.limit, "a number above 0, or infinity");
    require(std::isfinite(activation.up_offset), "up_offset", activation.up_offset, "a finite number");
  } else {
    require(std::isinf(activation.limit) && activation.limit > 0, "limit", activation.limit,
            "infinity, as linear2 has no limit");
    require(activation.up_offset == 0, "up_offset", activation.up_offset, "0, as linear2 has no up columns");
  }
}

}  // namespace dropless
