// The activation of an expert layer over its rows, forward and backward. Forward is element by element, so
// several blocks may share a row; backward gives each row to one warp, which owns the dot product that is the
// routing weight's gradient.
#include "activation_chunks.cuh"
#include "expert_mlp_rows.cuh"

namespace dropless {
namespace {

/// Chunks of each operand that a lane has in flight: few, since more warps do better than more chunks.
template <bool glu>
constexpr int forward_accesses = glu ? 2 : 4;
constexpr int backward_accesses = 1;
constexpr int blocks_at_once = 4;  // of a multiprocessor

/// What both directions know of the activation. Gate and up are the halves of an expert's up columns.
template <class Element, class Function>
struct ActivationArguments {
  Function function;
  GluRule rule;
  std::int32_t columns;  // of p
  const std::int32_t* widths;
  const Element* bias;

  /// Columns of h of an expert.
  template <bool glu>
  __device__ int width(int expert) const {
    return (widths != nullptr ? widths[expert] : columns) / (glu ? 2 : 1);
  }
  __device__ const Element* bias_of(int expert) const {
    return bias == nullptr ? nullptr : bias + std::int64_t{expert} * columns;
  }
};

/// What turns the product of one row into its pre-activation.
template <class Element>
struct PreActivation {
  bool plain;  ///< it is the product
  bool keeps;  ///< p goes back to where the product was
  float scale;
  const Element* bias;

  /// scale * product + bias, rounded as it is kept, so that backward computes the same h from it.
  template <class Chunk>
  __device__ Chunk of(const Chunk& product, int chunk) const {
    return pre_activate_chunk<Element>(
        scale, product, bias != nullptr ? reinterpret_cast<const Chunk*>(bias)[chunk] : Chunk{});
  }
};

/// One row, or block z's segments of it. p and h may be one memory: what a thread overwrites, it has read.
template <bool glu, class Chunk, class Element, class Function>
__device__ void activate_row(const ActivationArguments<Element, Function>& arguments,
                             const PreActivation<Element>& pre_activation, Element* p, Element* h,
                             int width) {
  constexpr int elements = sizeof(Chunk) / sizeof(Element);
  const int end = width / elements, lane = static_cast<int>(threadIdx.x) % 32;
  auto* const gate = reinterpret_cast<Chunk*>(p);
  auto* const up = reinterpret_cast<Chunk*>(p + width);
  constexpr int accesses = forward_accesses<glu>;
  const int stride = 32 * accesses * static_cast<int>(gridDim.z);
  for (int first = 32 * accesses * static_cast<int>(blockIdx.z) + lane; first < end; first += stride) {
    Chunk gates[accesses], ups[accesses]{};
    load_chunks(gate, first, 32, end, gates);
    if constexpr (glu) load_chunks(up, first, 32, end, ups);
#pragma unroll
    for (int i = 0; i < accesses; ++i) {
      const int chunk = first + i * 32;
      if (chunk >= end) continue;
      if (!pre_activation.plain) {
        gates[i] = pre_activation.of(gates[i], chunk);
        if constexpr (glu) ups[i] = pre_activation.of(ups[i], end + chunk);
        if (pre_activation.keeps) {
          gate[chunk] = gates[i];
          if constexpr (glu) up[chunk] = ups[i];
        }
      }
      reinterpret_cast<Chunk*>(h)[chunk] =
          activate_chunk<glu, Element>(arguments.rule, arguments.function, gates[i], ups[i]);
    }
  }
}

template <bool glu, class Element, class Function>
__global__ void __launch_bounds__(layer_threads, blocks_at_once)
    activate_rows(RowWalk walk, ActivationArguments<Element, Function> arguments, const float* scales,
                  ElementRows<Element> p, bool keeps, ElementRows<Element> h, bool by_chunks) {
  allow_next_kernel();
  const bool plain = scales == nullptr && arguments.bias == nullptr;
  wait_for_previous_kernel();
  walk.for_each_row([&](std::int64_t row, int expert) {
    const int width = arguments.template width<glu>(expert);
    const PreActivation<Element> pre_activation{plain, keeps, walk.factor({scales, 1.0f}, row),
                                                arguments.bias_of(expert)};
    if (by_chunks && width % 8 == 0)
      activate_row<glu, uint4>(arguments, pre_activation, p.row(row), h.row(row), width);
    else
      activate_row<glu, unsigned short>(arguments, pre_activation, p.row(row), h.row(row), width);
  });
}

/// One row by one warp; returns the lane's share of h_gradient . h.
template <bool glu, class Chunk, class Element, class Function>
__device__ float activate_row_backward(const ActivationArguments<Element, Function>& arguments, float factor,
                                       const Element* p, Element* h, Element* p_gradient, int width) {
  using Elements = ChunkElements<Element, Chunk>;
  const int end = width / Elements::count;
  float dot = 0;
  for (int first = static_cast<int>(threadIdx.x) % 32; first < end; first += 32 * backward_accesses) {
    Chunk gates[backward_accesses], ups[backward_accesses], gradients[backward_accesses];
    load_chunks(p, first, 32, end, gates);
    if (glu) load_chunks(p + width, first, 32, end, ups);
    load_chunks(h, first, 32, end, gradients);
#pragma unroll
    for (int i = 0; i < backward_accesses; ++i) {
      const int chunk = first + i * 32;
      if (chunk >= end) continue;
      const Elements gate(gates[i]), gradient(gradients[i]);
      float value[Elements::count], gate_gradient[Elements::count], up_gradient[Elements::count];
      if constexpr (glu) {
        const Elements up(ups[i]);
#pragma unroll
        for (int j = 0; j < Elements::count; ++j) {
          const auto derivative = arguments.rule.derivative(arguments.function, gate.value[j], up.value[j]);
          value[j] = arguments.rule(arguments.function, gate.value[j], up.value[j]);
          gate_gradient[j] = derivative.gate;
          up_gradient[j] = derivative.up;
        }
      } else {
#pragma unroll
        for (int j = 0; j < Elements::count; ++j) {
          value[j] = arguments.function(gate.value[j]);
          gate_gradient[j] = arguments.function.derivative(gate.value[j]);
        }
      }
#pragma unroll
      for (int j = 0; j < Elements::count; ++j) {
        dot = fmaf(gradient.value[j], value[j], dot);
        const float scaled = factor * gradient.value[j];
        value[j] *= factor;
        gate_gradient[j] *= scaled;
        if constexpr (glu) up_gradient[j] *= scaled;
      }
      reinterpret_cast<Chunk*>(h)[chunk] = Elements::pack(value);
      reinterpret_cast<Chunk*>(p_gradient)[chunk] = Elements::pack(gate_gradient);
      if constexpr (glu) reinterpret_cast<Chunk*>(p_gradient + width)[chunk] = Elements::pack(up_gradient);
    }
  }
  return dot;
}

template <class Element>
__device__ void zero_columns(Element* row, int begin, int end) {
  for (int column = begin + static_cast<int>(threadIdx.x) % 32; column < end; column += 32)
    row[column] = from_float<Element>(0.0f);
}

template <class Element>
struct BackwardArguments {
  RowFactors factors;
  ElementRows<const Element> p;
  ElementRows<Element> h, p_gradient;
  float* weights_gradient;
  ElementRows<const Element> out_gradient;
  const Element* down_bias;
  std::int32_t d_model;
  RowOrder order;
  bool by_chunks, bias_by_chunks;
};

template <bool glu, class Element, class Function>
__global__ void __launch_bounds__(layer_threads, blocks_at_once)
    activate_rows_backward(RowWalk walk, ActivationArguments<Element, Function> arguments,
                           BackwardArguments<Element> backward) {
  allow_next_kernel();
  wait_for_previous_kernel();
  walk.for_each_row([&](std::int64_t row, int expert) {
    const int width = arguments.template width<glu>(expert);
    const float factor = walk.factor(backward.factors, row);
    const Element* const p = backward.p.row(row);
    Element *const h = backward.h.row(row), *const p_gradient = backward.p_gradient.row(row);
    float dot = backward.by_chunks && width % 8 == 0
                    ? activate_row_backward<glu, uint4>(arguments, factor, p, h, p_gradient, width)
                    : activate_row_backward<glu, unsigned short>(arguments, factor, p, h, p_gradient, width);
    zero_columns(h, width, arguments.columns / (glu ? 2 : 1));
    zero_columns(p_gradient, width * (glu ? 2 : 1), arguments.columns);
    if (backward.weights_gradient == nullptr) return;
    if (backward.down_bias != nullptr) {
      const Element* const bias = backward.down_bias + std::int64_t{expert} * backward.d_model;
      const Element* const gradient = backward.out_gradient.row(row);
      dot += backward.bias_by_chunks ? lane_dot<Element, uint4>(gradient, bias, backward.d_model)
                                     : lane_dot<Element, unsigned short>(gradient, bias, backward.d_model);
    }
    dot = warp_sum(dot);
    if (threadIdx.x % 32 == 0) backward.weights_gradient[walk.assignment(row)] = backward.factors.scale * dot;
  });
  zero_where_no_row(backward.order, backward.weights_gradient);
}

/// Calls launch_kernel(glu, arguments) for the kind, the function and the element type.
template <class LaunchKernel>
void with_activation_arguments(const LayerActivation& activation, ElementType type,
                               LaunchKernel launch_kernel) {
  with_element(type, [&](auto element) {
    using Element = decltype(element);
    with_activation(activation.activation, [&](auto function) {
      const ActivationArguments<Element, decltype(function)> arguments{
          function, GluRule(activation.activation), static_cast<std::int32_t>(activation.columns),
          activation.widths, static_cast<const Element*>(activation.bias)};
      if (activation.kind == MlpKind::glu)
        launch_kernel(std::true_type{}, arguments);
      else
        launch_kernel(std::false_type{}, arguments);
    });
  });
}

/// Whether each half of p, each row of h and of the bias begins on 16 bytes where widths do.
ChunkAccess access_to(const LayerActivation& activation) {
  ChunkAccess access;
  if (activation.bias != nullptr) access.with(activation.bias, activation.columns);
  return access;
}

}  // namespace

void activate(const LayerRows& rows, const LayerActivation& activation, const float* scales,
              const MutableRowsView& p, bool keeps, const MutableRowsView& h, Stream stream) {
  const bool by_chunks = access_to(activation).with(p).with(h).possible();
  with_activation_arguments(activation, p.type, [&](auto glu, const auto& arguments) {
    const std::int64_t h_columns = activation.columns / (glu ? 2 : 1);
    const dim3 grid = row_walk_grid(rows, ceil_div(h_columns, 8 * 32 * forward_accesses<glu>));
    using Element = std::remove_const_t<std::remove_pointer_t<decltype(arguments.bias)>>;
    launch("activate_rows",
           activate_rows<decltype(glu)::value, Element, std::decay_t<decltype(arguments.function)>>, grid,
           layer_threads, 0, stream, LaunchOrder::overlap_previous, RowWalk(rows), arguments, scales,
           element_rows<Element>(p), keeps, element_rows<Element>(h), by_chunks);
  });
}

void activate_backward(const LayerRows& rows, const LayerActivation& activation,
                       const ActivationBackward& backward, Stream stream) {
  const bool by_chunks = ChunkAccess().with(backward.p).with(backward.h).with(backward.p_gradient).possible();
  const bool bias_by_chunks =
      ChunkAccess().with(backward.out_gradient).with(backward.down_bias, backward.d_model).possible();
  with_activation_arguments(activation, backward.p.type, [&](auto glu, const auto& arguments) {
    using Element = std::remove_const_t<std::remove_pointer_t<decltype(arguments.bias)>>;
    const BackwardArguments<Element> operands{backward.factors,
                                              element_rows<Element>(backward.p),
                                              element_rows<Element>(backward.h),
                                              element_rows<Element>(backward.p_gradient),
                                              backward.weights_gradient,
                                              element_rows<Element>(backward.out_gradient),
                                              static_cast<const Element*>(backward.down_bias),
                                              static_cast<std::int32_t>(backward.d_model),
                                              rows.order,
                                              by_chunks,
                                              bias_by_chunks};
    launch("activate_rows_backward",
           activate_rows_backward<decltype(glu)::value, Element, std::decay_t<decltype(arguments.function)>>,
           row_walk_grid(rows, 1), layer_threads, 0, stream, LaunchOrder::overlap_previous, RowWalk(rows),
           arguments, operands);
  });
}

}  // namespace dropless
