// The steps of an expert layer that pass over rows without an activation: what follows the down product where
// no combine does it all, the weights on the input, and the halves of experts of different widths.
#include "expert_mlp_rows.cuh"

namespace dropless {
namespace {

constexpr int finish_accesses = 2;

template <class Chunk, class Element>
__device__ void finish_row(const Element* source, Element* target, const Element* bias, float factor,
                           bool accumulate, int columns) {
  using Elements = ChunkElements<Element, Chunk>;
  const int end = columns / Elements::count, lane = static_cast<int>(threadIdx.x) % 32;
  const int stride = 32 * finish_accesses * static_cast<int>(gridDim.z);
  for (int first = 32 * finish_accesses * static_cast<int>(blockIdx.z) + lane; first < end; first += stride) {
    Chunk sources[finish_accesses], held[finish_accesses] = {}, biases[finish_accesses] = {};
    load_chunks(source, first, 32, end, sources);
    if (accumulate) load_chunks(target, first, 32, end, held);
    if (bias != nullptr) load_chunks(bias, first, 32, end, biases);
#pragma unroll
    for (int i = 0; i < finish_accesses; ++i) {
      if (first + i * 32 >= end) continue;
      const Elements s(sources[i]), h(held[i]), b(biases[i]);
      float result[Elements::count];
#pragma unroll
      for (int j = 0; j < Elements::count; ++j) result[j] = fmaf(factor, s.value[j] + b.value[j], h.value[j]);
      reinterpret_cast<Chunk*>(target)[first + i * 32] = Elements::pack(result);
    }
  }
}

template <class Element>
__global__ void __launch_bounds__(layer_threads)
    finish_all_rows(RowWalk walk, ElementRows<const Element> source, ElementRows<Element> target,
                    const Element* bias, RowFactors factors, bool accumulate, std::int32_t columns,
                    bool by_chunks) {
  allow_next_kernel();
  wait_for_previous_kernel();
  walk.for_each_row([&](std::int64_t row, int expert) {
    const float factor = walk.factor(factors, row);
    const Element* const row_bias = bias == nullptr ? nullptr : bias + std::int64_t{expert} * columns;
    if (by_chunks)
      finish_row<uint4>(source.row(row), target.row(row), row_bias, factor, accumulate, columns);
    else
      finish_row<unsigned short>(source.row(row), target.row(row), row_bias, factor, accumulate, columns);
  });
}

template <class Chunk, class Element>
__device__ void scale_row(const Element* source, Element* target, float factor, int columns) {
  using Elements = ChunkElements<Element, Chunk>;
  for (int chunk = static_cast<int>(threadIdx.x) % 32; chunk < columns / Elements::count; chunk += 32) {
    Elements elements(reinterpret_cast<const Chunk*>(source)[chunk]);
#pragma unroll
    for (int j = 0; j < Elements::count; ++j) elements.value[j] *= factor;
    reinterpret_cast<Chunk*>(target)[chunk] = Elements::pack(elements.value);
  }
}

/// The dot product is taken before the row's gradient may be overwritten.
template <class Element>
__global__ void __launch_bounds__(layer_threads)
    weigh_all_inputs(RowWalk walk, RowOrder order, ElementRows<const Element> x, const float* weights,
                     ElementRows<const Element> row_gradient, ElementRows<Element> target,
                     float* weights_gradient, std::int32_t columns, bool by_chunks) {
  allow_next_kernel();
  wait_for_previous_kernel();
  walk.for_each_row([&](std::int64_t row, int) {
    const Element* const source = x.row(walk.token(row));
    if (weights_gradient != nullptr) {
      const Element* const gradient = row_gradient.row(row);
      const float dot = warp_sum(by_chunks ? lane_dot<Element, uint4>(source, gradient, columns)
                                           : lane_dot<Element, unsigned short>(source, gradient, columns));
      if (threadIdx.x % 32 == 0) weights_gradient[walk.assignment(row)] = dot;
    }
    const float factor = walk.factor({weights, 1.0f}, row);
    if (by_chunks)
      scale_row<uint4>(source, target.row(row), factor, columns);
    else
      scale_row<unsigned short>(source, target.row(row), factor, columns);
  });
  zero_where_no_row(order, weights_gradient);
}

/// From the last element down, so that nothing is overwritten before it has moved.
template <class Element>
__global__ void __launch_bounds__(layer_threads)
    spread_all_halves(RowWalk walk, const std::int32_t* widths, ElementRows<Element> matrix,
                      std::int32_t columns) {
  allow_next_kernel();
  wait_for_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  walk.for_each_row([&](std::int64_t row, int expert) {
    const int half = widths[expert] / 2, middle = columns / 2;
    Element* const elements = matrix.row(row);
    for (int last = half - 1; last >= 0; last -= 32) {
      const int column = last - lane;
      const Element moved = column >= 0 ? elements[half + column] : Element{};
      __syncwarp();
      if (column >= 0) elements[middle + column] = moved;
      __syncwarp();
    }
    for (int column = half + lane; column < middle; column += 32)
      elements[column] = from_float<Element>(0.0f);
    for (int column = middle + half + lane; column < columns; column += 32)
      elements[column] = from_float<Element>(0.0f);
  });
}

}  // namespace

void finish_rows(const LayerRows& rows, const RowsView& source, const MutableRowsView& target,
                 std::int64_t columns, const void* bias, const RowFactors& factors, bool accumulate,
                 Stream stream) {
  ChunkAccess access;
  access.with(source).with(target).with(bias, columns);
  with_element(source.type, [&](auto element) {
    using Element = decltype(element);
    launch("finish_all_rows", finish_all_rows<Element>,
           row_walk_grid(rows, ceil_div(columns, 8 * 32 * finish_accesses)), layer_threads, 0, stream,
           LaunchOrder::overlap_previous, RowWalk(rows), element_rows<Element>(source),
           element_rows<Element>(target), static_cast<const Element*>(bias), factors, accumulate,
           static_cast<std::int32_t>(columns), access.possible());
  });
}

void weigh_input(const LayerRows& rows, const RowsView& x, const float* weights, const RowsView& row_gradient,
                 const MutableRowsView& target, float* weights_gradient, std::int64_t columns,
                 Stream stream) {
  const bool by_chunks = columns % 8 == 0 && ChunkAccess().with(x).with(row_gradient).with(target).possible();
  with_element(x.type, [&](auto element) {
    using Element = decltype(element);
    launch("weigh_all_inputs", weigh_all_inputs<Element>, row_walk_grid(rows, 1), layer_threads, 0, stream,
           LaunchOrder::overlap_previous, RowWalk(rows), rows.order, element_rows<Element>(x), weights,
           element_rows<Element>(row_gradient), element_rows<Element>(target), weights_gradient,
           static_cast<std::int32_t>(columns), by_chunks);
  });
}

void spread_halves(const LayerRows& rows, const std::int32_t* widths, const MutableRowsView& matrix,
                   std::int64_t columns, Stream stream) {
  with_element(matrix.type, [&](auto element) {
    using Element = decltype(element);
    launch("spread_all_halves", spread_all_halves<Element>, row_walk_grid(rows, 1), layer_threads, 0, stream,
           LaunchOrder::overlap_previous, RowWalk(rows), widths, element_rows<Element>(matrix),
           static_cast<std::int32_t>(columns));
  });
}

}  // namespace dropless
