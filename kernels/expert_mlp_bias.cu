// The gradients of an expert layer's biases: for every expert, sums over its rows of each column. A thread
// block takes an expert's share of columns; its warps take rows in turn and their sums are added in order, so
// the result depends on nothing but the expert's rows.
#include "expert_mlp_rows.cuh"

namespace dropless {
namespace {

constexpr int rows_in_flight = 4;

template <class Chunk, class Element>
__global__ void __launch_bounds__(layer_threads)
    sum_expert_columns(RowWalk walk, const std::int32_t* row_begin, const std::int32_t* row_count,
                       ElementRows<const Element> matrix, std::int32_t columns, RowFactors factors,
                       float* sums, bool accumulate) {
  using Elements = ChunkElements<Element, Chunk>;
  __shared__ float warp_sums[layer_warps][32 * Elements::count];
  allow_next_kernel();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int chunk = static_cast<int>(blockIdx.x) * 32 + lane, expert = static_cast<int>(blockIdx.y);
  const bool has_columns = chunk < columns / Elements::count;
  wait_for_previous_kernel();
  const int count = row_count[expert];
  const std::int64_t begin = row_begin[expert];

  float sum[Elements::count] = {};
  for (int first = warp; first < count; first += layer_warps * rows_in_flight) {
    Chunk chunks[rows_in_flight];
    float factor[rows_in_flight];
#pragma unroll
    for (int i = 0; i < rows_in_flight; ++i) {
      const int row = first + i * layer_warps;
      chunks[i] = has_columns && row < count ? reinterpret_cast<const Chunk*>(matrix.row(begin + row))[chunk]
                                             : Chunk{};
      factor[i] = row < count ? walk.factor(factors, begin + row) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < rows_in_flight; ++i) {
      const Elements elements(chunks[i]);
#pragma unroll
      for (int j = 0; j < Elements::count; ++j) sum[j] = fmaf(factor[i], elements.value[j], sum[j]);
    }
  }
#pragma unroll
  for (int j = 0; j < Elements::count; ++j) warp_sums[warp][lane * Elements::count + j] = sum[j];
  __syncthreads();
  const int first_column = static_cast<int>(blockIdx.x) * 32 * Elements::count;
  for (int i = static_cast<int>(threadIdx.x); i < 32 * Elements::count; i += layer_threads) {
    if (first_column + i >= columns) break;
    float* const target = sums + std::int64_t{expert} * columns + first_column + i;
    float total = accumulate ? *target : 0.0f;
#pragma unroll
    for (int w = 0; w < layer_warps; ++w) total += warp_sums[w][i];
    *target = total;
  }
}

template <class Chunk, class Element>
void launch_sum(const LayerRows& rows, const RowsView& matrix, std::int64_t columns,
                const RowFactors& factors, float* sums, bool accumulate, Stream stream) {
  const std::int64_t chunks = columns * std::int64_t{sizeof(Element)} / std::int64_t{sizeof(Chunk)};
  const dim3 grid(static_cast<unsigned>(ceil_div(chunks, 32)), static_cast<unsigned>(rows.rows.experts));
  launch("sum_expert_columns", sum_expert_columns<Chunk, Element>, grid, layer_threads, 0, stream,
         LaunchOrder::overlap_previous, RowWalk(rows), rows.rows.row_begin, rows.rows.row_count,
         element_rows<Element>(matrix), static_cast<std::int32_t>(columns), factors, sums, accumulate);
}

}  // namespace

void sum_columns(const LayerRows& rows, const RowsView& matrix, std::int64_t columns,
                 const RowFactors& factors, float* sums, bool accumulate, Stream stream) {
  const bool by_chunks = columns % 8 == 0 && ChunkAccess().with(matrix).possible();
  with_element(matrix.type, [&](auto element) {
    using Element = decltype(element);
    const auto launch_chunks = by_chunks ? launch_sum<uint4, Element> : launch_sum<unsigned short, Element>;
    launch_chunks(rows, matrix, columns, factors, sums, accumulate, stream);
  });
}

}  // namespace dropless
