// Which activations a layer may ask for.
#include <limits>
#include <string>

#include "catch.hpp"
#include "dropless/activation.hpp"
#include "refused_argument.hpp"

using namespace dropless;
using namespace dropless::test;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

std::string refused(const Activation& activation, MlpKind kind) {
  return refused_argument([&] { check_activation(activation, kind); });
}

}  // namespace

TEST_CASE("activation functions have names", "[activation]") {
  CHECK(activation_function_name(ActivationFunction::silu) == std::string("silu"));
  CHECK(activation_function_name(ActivationFunction::gelu_erf) == std::string("gelu_erf"));
  CHECK(activation_function_name(ActivationFunction::gelu_tanh) == std::string("gelu_tanh"));
  CHECK(activation_function_name(ActivationFunction::relu) == std::string("relu"));
  CHECK(activation_function_name(ActivationFunction::relu_squared) == std::string("relu_squared"));
  CHECK_THROWS_AS(activation_function_name(static_cast<ActivationFunction>(5)), Error);
  CHECK_THROWS_AS(check_activation({static_cast<ActivationFunction>(-1)}, MlpKind::glu), Error);
}

TEST_CASE("every function with its default parameters is an activation of its kinds", "[activation]") {
  for (const ActivationFunction function : {ActivationFunction::silu, ActivationFunction::gelu_erf,
                                            ActivationFunction::gelu_tanh, ActivationFunction::relu}) {
    CHECK_NOTHROW(check_activation({function}, MlpKind::linear2));
    CHECK_NOTHROW(check_activation({function}, MlpKind::glu));
  }
  CHECK_NOTHROW(check_activation({ActivationFunction::relu_squared}, MlpKind::linear2));
  CHECK(refused({ActivationFunction::relu_squared}, MlpKind::glu) == "activation.function");
}

TEST_CASE("alpha belongs to silu, limit and up_offset to glu", "[activation]") {
  const ActivationFunction silu = ActivationFunction::silu, gelu = ActivationFunction::gelu_tanh;
  CHECK(refused({silu, 1.702F, 7, 1}, MlpKind::glu) == "nothing");
  CHECK(refused({silu, 1.702F}, MlpKind::linear2) == "nothing");
  CHECK(refused({gelu, 1, 7, 1}, MlpKind::glu) == "nothing");
  CHECK(refused({gelu, 1.702F}, MlpKind::glu) == "activation.alpha");
  CHECK(refused({silu, 1, 7}, MlpKind::linear2) == "activation.limit");
  CHECK(refused({silu, 1, infinity, 1}, MlpKind::linear2) == "activation.up_offset");
}

TEST_CASE("parameters out of range are refused", "[activation]") {
  const ActivationFunction silu = ActivationFunction::silu;
  for (const float alpha : {0.0F, -1.0F, infinity, not_a_number})
    CHECK(refused({silu, alpha}, MlpKind::glu) == "activation.alpha");
  for (const float limit : {0.0F, -7.0F, -infinity, not_a_number}) {
    CHECK(refused({silu, 1, limit}, MlpKind::glu) == "activation.limit");
    CHECK(refused({silu, 1, limit}, MlpKind::linear2) == "activation.limit");
  }
  for (const float offset : {infinity, not_a_number})
    CHECK(refused({silu, 1, 7, offset}, MlpKind::glu) == "activation.up_offset");
}
