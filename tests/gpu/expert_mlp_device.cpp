// Moves a layer case to the device, runs it, and brings the results back as doubles.
#include "expert_mlp_device.hpp"

#include <algorithm>
#include <cmath>

#include "dropless/float16.hpp"

namespace dropless::test {
namespace {

using Bytes = DeviceBuffer<unsigned char>;

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

/// Rounds the values to `type` where they are, and gives their patterns as rows of `columns`, `pitch` apart.
Bytes uploaded(std::vector<double>& values, ElementType type, std::int64_t columns, std::int64_t pitch) {
  const std::int64_t rows = columns == 0 ? 0 : static_cast<std::int64_t>(values.size()) / columns;
  std::vector<unsigned char> bytes(size(rows * pitch * 2), 0xff);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      double& value = values[size(r * columns + c)];
      const std::uint16_t pattern = pattern_from_float(type, static_cast<float>(value));
      value = static_cast<double>(float_from_pattern(type, pattern));
      std::memcpy(&bytes[size((r * pitch + c) * 2)], &pattern, 2);
    }
  return Bytes(bytes);
}
Bytes uploaded(std::vector<double>& values, ElementType type) {
  const auto count = static_cast<std::int64_t>(values.size());
  return uploaded(values, type, count, count);
}

std::vector<float> rounded_to_float(std::vector<double>& values) {
  std::vector<float> floats(values.begin(), values.end());
  values.assign(floats.begin(), floats.end());
  return floats;
}

/// Scales weights so that the layer's values are of order one, or makes p a multiple of 1/8.
ExpertMlpCase& prepared(ExpertMlpCase& of, LayerValues values) {
  const auto each = [](std::vector<double>& numbers, auto change) {
    for (double& number : numbers) number = change(number);
  };
  const double down_scale = 3 / std::sqrt(static_cast<double>(of.d_ff)),
               up_scale = 3 / std::sqrt(static_cast<double>(of.shape.d_model));
  for (std::vector<double>& memory : of.down.memory)
    each(memory, [&](double value) { return value * down_scale; });
  if (values == LayerValues::any) {
    for (std::vector<double>& memory : of.up.memory)
      each(memory, [&](double value) { return value * up_scale; });
    return of;
  }
  each(of.x, [](double value) { return std::round(1.49 * value); });
  for (std::vector<double>& memory : of.up.memory)
    each(memory, [](double value) { return std::round(1.49 * value) / 4; });
  each(of.up_bias, [](double value) { return std::round(4 * value) / 4; });
  each(of.routing_weights, [](double value) { return std::round(2 * value) / 2; });
  return of;
}

std::vector<std::int32_t> narrowed(const ArrayView<const std::int64_t>& values) {
  return std::vector<std::int32_t>(values.begin(), values.end());
}

}  // namespace

void require_close(const NamedValues& results, const NamedValues& expected, ElementType type) {
  REQUIRE(results.size() == expected.size());
  const double limit = type == ElementType::bf16 ? 8e-3 : 2e-3;
  for (std::size_t which = 0; which < results.size(); ++which) {
    const auto& [name, values] = results[which];
    const std::vector<double>& right = expected[which].second;
    INFO(name);
    REQUIRE(values.size() == right.size());
    double error = 0, reference = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      error += (values[i] - right[i]) * (values[i] - right[i]);
      reference += right[i] * right[i];
    }
    const double relative = reference > 0 ? std::sqrt(error / reference) : std::sqrt(error);
    CHECK(relative <= limit);
  }
}

std::unique_ptr<DeviceLayer::Weights> DeviceLayer::device_weights(Experts& experts, ElementType type) {
  const HostExpertWeights<double>& of = experts.weights;
  const auto pointers = [&](const ArrayView<const double* const>& matrices, const Bytes& tensor,
                            const std::vector<double>& memory) {
    std::vector<const void*> on_device;
    for (const double* const matrix : matrices)
      on_device.push_back(tensor.data() + 2 * (matrix - memory.data()));
    return on_device;
  };
  std::vector<Bytes> tensors;
  for (std::vector<double>& memory : experts.memory) tensors.push_back(uploaded(memory, type));
  const bool two = tensors.size() > 1;
  auto weights = std::unique_ptr<Weights>(new Weights{std::move(tensors),
                                                      DeviceBuffer<const void*>(of.first.matrices.size()),
                                                      DeviceBuffer<const void*>(of.second.matrices.size()),
                                                      DeviceBuffer<std::int32_t>(narrowed(of.d_ff)),
                                                      DeviceBuffer<std::int32_t>(narrowed(of.d_ff_begin)),
                                                      {}});
  ExpertWeights& view = weights->view;
  view.type = type;
  view.experts = of.experts;
  view.k = of.k;
  view.n = of.n;
  view.order = of.order;
  view.leading_dimension = of.leading_dimension;
  if (of.first.matrices.empty()) {
    view.first = {weights->tensors[0].data(), of.first.expert_stride, nullptr};
    if (two) view.second = {weights->tensors[1].data(), of.second.expert_stride, nullptr};
  } else {
    weights->first.upload(pointers(of.first.matrices, weights->tensors[0], experts.memory[0]));
    view.first.matrices = weights->first.data();
    if (two) {
      weights->second.upload(pointers(of.second.matrices, weights->tensors[1], experts.memory[1]));
      view.second.matrices = weights->second.data();
    }
  }
  if (!of.d_ff.empty()) view.widths = {weights->d_ff.data(), weights->d_ff_begin.data()};
  return weights;
}

DeviceLayer::DeviceLayer(ExpertMlpCase& of, ElementType element_type, ElementType type_of_gradients,
                         std::int64_t pad, LayerValues values)
    : host(prepared(of, values)),
      type(element_type),
      gradient_type(type_of_gradients),
      ids(of.ids),
      pitch_(of.shape.d_model + pad),
      up_(device_weights(of.up, type)),
      down_(device_weights(of.down, type)),
      up_bias_(uploaded(of.up_bias, type)),
      down_bias_(uploaded(of.down_bias, type)),
      x_(uploaded(of.x, type, of.shape.d_model, pitch_)),
      out_gradient_(uploaded(of.out_gradient, type, of.shape.d_model, pitch_)),
      routing_weights_(rounded_to_float(of.routing_weights)),
      out_(size(of.shape.tokens * pitch_ * 2)),
      x_gradient_(size(of.shape.tokens * pitch_ * 2)),
      up_gradient_(size(of.experts * of.shape.d_model * of.up_n /
                        static_cast<std::int64_t>(up_->tensors.size()) * element_bytes(gradient_type))),
      up_second_gradient_(up_->tensors.size() > 1 ? up_gradient_.size() : 0),
      down_gradient_(size(of.experts * of.shape.d_model * of.d_ff * element_bytes(gradient_type))),
      up_bias_gradient_(of.up_bias.size() * 4),
      down_bias_gradient_(of.down_bias.size() * 4),
      weights_gradient_(of.weighted() ? of.ids.size() * 4 : 0) {}

ExpertMlp DeviceLayer::mlp() const {
  const bool biases = host.shape.biases;
  return {host.shape.kind,
          host.shape.activation,
          up_->view,
          down_->view,
          biases ? up_bias_.data() : nullptr,
          biases ? down_bias_.data() : nullptr};
}

MutableRowsView DeviceLayer::rows(const Bytes& buffer, std::int64_t first) const {
  return {buffer.data() + first * pitch_ * 2, pitch_, type};
}

RowsView DeviceLayer::rows_read(const Bytes& buffer, std::int64_t first) const {
  return {buffer.data() + first * pitch_ * 2, pitch_, type};
}

ExpertMlpBatch DeviceLayer::batch(std::int64_t first, std::int64_t count) const {
  const std::int64_t top_k = host.shape.top_k;
  ExpertMlpBatch batch;
  batch.bounds = {count, top_k, host.experts, {}};
  batch.ids.data = ids.data() + first * top_k;
  if (host.weighted()) batch.routing_weights = routing_weights_.data() + first * top_k;
  batch.x = rows_read(x_, first);
  return batch;
}

ExpertGradients DeviceLayer::expert_gradients(const Bytes& buffer, std::int64_t m, std::int64_t n) const {
  ExpertGradients gradients;
  gradients.type = gradient_type;
  gradients.experts = host.experts;
  gradients.m = m;
  gradients.n = n;
  gradients.leading_dimension = n;
  gradients.expert_stride = m * n;
  gradients.data = buffer.data();
  return gradients;
}

ExpertMlpGradients DeviceLayer::gradients(std::int64_t first) const {
  const bool two = up_->tensors.size() > 1;
  const std::int64_t d_model = host.shape.d_model, n = two ? host.up_n / 2 : host.up_n;
  ExpertMlpGradients gradients;
  gradients.x = rows(x_gradient_, first);
  gradients.up = expert_gradients(up_gradient_, d_model, n);
  if (two) gradients.up_second = expert_gradients(up_second_gradient_, d_model, n);
  gradients.down = expert_gradients(down_gradient_, host.d_ff, d_model);
  if (host.shape.biases) {
    gradients.up_bias = reinterpret_cast<float*>(up_bias_gradient_.data());
    gradients.down_bias = reinterpret_cast<float*>(down_bias_gradient_.data());
  }
  if (host.weighted())
    gradients.routing_weights = reinterpret_cast<float*>(weights_gradient_.data()) + first * host.shape.top_k;
  return gradients;
}

ExpertMlpOptions DeviceLayer::options(const LayerWay& way) const {
  ExpertMlpOptions options = host.options;
  options.path = way.path;
  options.composed = way.composed;
  return options;
}

void DeviceLayer::run(const LayerWay& way, std::int64_t first, std::int64_t count, bool accumulate) {
  ExpertMlpOptions forward = options(way), backward = forward;
  backward.accumulate = accumulate;
  forward.accumulate = false;
  const ExpertMlpBatch part = batch(first, count);
  const LayerMemory memory(*this, part, forward);
  memory.run_forward(*this, part, out(first), forward);
  memory.run_backward(*this, part, out_gradient(first), gradients(first), backward);
  REQUIRE(memory.guards_intact());
}

void DeviceLayer::infer(const LayerWay& way, std::int64_t first, std::int64_t count) {
  const ExpertMlpBatch part = batch(first, count);
  const Bytes workspace(expert_mlp_forward_workspace_bytes(mlp(), part.bounds, options(way), false));
  expert_mlp_forward(mlp(), part, out(first), options(way), {}, {workspace.data(), workspace.size()},
                     nullptr);
  REQUIRE(workspace.guards_intact());
}

std::vector<const Bytes*> DeviceLayer::written() const {
  return {&out_,           &x_gradient_,       &up_gradient_,        &up_second_gradient_,
          &down_gradient_, &up_bias_gradient_, &down_bias_gradient_, &weights_gradient_};
}

void DeviceLayer::poison() {
  for (const Bytes* const buffer : written()) const_cast<Bytes*>(buffer)->poison();
}

bool DeviceLayer::padding_intact(const Bytes& buffer) const {
  const std::vector<unsigned char> bytes = buffer.download();
  for (std::int64_t row = 0; row < host.shape.tokens; ++row) {
    const auto begin = bytes.begin() + row * pitch_ * 2;
    if (!std::all_of(begin + host.shape.d_model * 2, begin + pitch_ * 2,
                     [](unsigned char byte) { return byte == 0xff; }))
      return false;
  }
  return true;
}

bool DeviceLayer::guards_intact() const {
  bool intact = x_.guards_intact() && out_gradient_.guards_intact() && padding_intact(out_) &&
                padding_intact(x_gradient_);
  for (const Bytes* const buffer : written()) intact = intact && buffer->guards_intact();
  return intact;
}

std::vector<std::vector<unsigned char>> DeviceLayer::bits() const {
  std::vector<std::vector<unsigned char>> bits;
  for (const Bytes* const buffer : written()) bits.push_back(buffer->download());
  return bits;
}

std::vector<double> DeviceLayer::values(const Bytes& buffer, std::int64_t rows, std::int64_t columns,
                                        std::int64_t pitch, ElementType element_type) {
  const std::vector<unsigned char> bytes = buffer.download();
  std::vector<double> result;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      const unsigned char* const element = &bytes[size((r * pitch + c) * element_bytes(element_type))];
      if (element_type == ElementType::fp32) {
        float value = 0;
        std::memcpy(&value, element, 4);
        result.push_back(static_cast<double>(value));
      } else {
        std::uint16_t pattern = 0;
        std::memcpy(&pattern, element, 2);
        result.push_back(static_cast<double>(float_from_pattern(element_type, pattern)));
      }
    }
  return result;
}

NamedValues DeviceLayer::results() const {
  const auto all = [](const Bytes& buffer, ElementType element_type) {
    const std::int64_t count = static_cast<std::int64_t>(buffer.size()) / element_bytes(element_type);
    return values(buffer, 1, count, count, element_type);
  };
  const std::int64_t tokens = host.shape.tokens, d_model = host.shape.d_model;
  return {{"out", out_values()},
          {"x", values(x_gradient_, tokens, d_model, pitch_, type)},
          {"up", all(up_gradient_, gradient_type)},
          {"up_second", all(up_second_gradient_, gradient_type)},
          {"down", all(down_gradient_, gradient_type)},
          {"up_bias", all(up_bias_gradient_, ElementType::fp32)},
          {"down_bias", all(down_bias_gradient_, ElementType::fp32)},
          {"routing_weights", all(weights_gradient_, ElementType::fp32)}};
}

NamedValues DeviceLayer::expected() const {
  CaseGradients gradients(host);
  gradients.add_backward(host);
  NamedValues all{{"out", host.forward()}};
  for (const auto& [name, values] : gradients.all()) all.emplace_back(name, *values);
  return all;
}

}  // namespace dropless::test
