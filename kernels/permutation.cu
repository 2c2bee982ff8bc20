// Gather, combine and combine's backward: memory-bound kernels in which a warp owns a segment of a row. A
// warp first fetches the rows of up to 32 slots with one access, a slot a lane, and hands them round by
// shuffle.
#include "dropless/permutation.hpp"

#include "launch.cuh"
#include "row_segments.cuh"

namespace dropless {
namespace {

constexpr int threads = 256;
constexpr unsigned full_warp_mask = 0xffffffffu;
constexpr int gather_accesses = 4;    // chunks a lane loads before it stores the first
constexpr int combine_accesses = 2;   // chunks of a row a lane sums at once
constexpr int combine_slots = 4;      // rows in flight
constexpr int backward_accesses = 4;  // chunks a lane loads of each operand

__device__ std::int64_t global_warp() { return (std::int64_t{blockIdx.x} * threads + threadIdx.x) / 32; }
__device__ std::int64_t grid_warps() { return std::int64_t{gridDim.x} * (threads / 32); }

template <class Chunk>
__global__ void __launch_bounds__(threads)
    gather_rows(RowOrder order, ChunkRows<const Chunk> x, ChunkRows<Chunk> rows, std::int64_t width,
                std::int64_t segments) {
  constexpr int segment_chunks = 32 * gather_accesses;
  const int lane = threadIdx.x % 32, top_k = static_cast<int>(order.top_k);
  for (std::int64_t item = global_warp(); item < order.tokens * segments; item += grid_warps()) {
    const std::int64_t token = item / segments, first = item % segments * segment_chunks + lane;
    const std::int32_t* const token_rows = order.assignment_to_row + token * top_k;
    const Chunk* const source = x.row(token);
    Chunk chunks[gather_accesses];
#pragma unroll
    for (int i = 0; i < gather_accesses; ++i)
      if (first + i * 32 < width) chunks[i] = __ldg(source + first + i * 32);
    for (int slots = 0; slots < top_k; slots += 32) {
      const std::int32_t lane_row = slots + lane < top_k ? token_rows[slots + lane] : -1;
      const int count = min(32, top_k - slots);
      for (int slot = 0; slot < count; ++slot) {
        const std::int32_t row = __shfl_sync(full_warp_mask, lane_row, slot);
        if (row < 0) continue;
        Chunk* const target = rows.row(row);
#pragma unroll
        for (int i = 0; i < gather_accesses; ++i)
          if (first + i * 32 < width) target[first + i * 32] = chunks[i];
      }
    }
  }
}

template <class Element, class Chunk>
__global__ void __launch_bounds__(threads)
    combine_rows(RowOrder order, ChunkRows<const Chunk> rows, const float* __restrict__ weights,
                 ChunkRows<Chunk> out, std::int64_t width, std::int64_t segments, bool accumulate) {
  using Elements = ChunkElements<Element, Chunk>;
  constexpr int segment_chunks = 32 * combine_accesses;
  const int lane = threadIdx.x % 32, top_k = static_cast<int>(order.top_k);
  for (std::int64_t item = global_warp(); item < order.tokens * segments; item += grid_warps()) {
    const std::int64_t token = item / segments, first = item % segments * segment_chunks + lane;
    const std::int64_t first_assignment = token * top_k;
    Chunk* const target = out.row(token);
    float sum[combine_accesses][Elements::count] = {};
    if (accumulate) {
#pragma unroll
      for (int i = 0; i < combine_accesses; ++i) {
        if (first + i * 32 >= width) continue;
        const Elements held(target[first + i * 32]);
#pragma unroll
        for (int j = 0; j < Elements::count; ++j) sum[i][j] = held.value[j];
      }
    }
    for (int slots = 0; slots < top_k; slots += 32) {
      const bool has_slot = slots + lane < top_k;
      const std::int32_t lane_row = has_slot ? order.assignment_to_row[first_assignment + slots + lane] : -1;
      const float lane_weight =
          has_slot && weights != nullptr ? weights[first_assignment + slots + lane] : 1.0f;
      const int count = min(32, top_k - slots);
      for (int batch = 0; batch < count; batch += combine_slots) {
        Chunk chunks[combine_slots][combine_accesses];
        std::int32_t row[combine_slots];
        float weight[combine_slots];
#pragma unroll
        for (int slot = 0; slot < combine_slots; ++slot) {
          // Lanes past the token's slots hold row -1, and batch + slot stays below 32.
          row[slot] = __shfl_sync(full_warp_mask, lane_row, batch + slot);
          weight[slot] = __shfl_sync(full_warp_mask, lane_weight, batch + slot);
#pragma unroll
          for (int i = 0; i < combine_accesses; ++i)
            if (row[slot] >= 0 && first + i * 32 < width)
              chunks[slot][i] = __ldcs(rows.row(row[slot]) + first + i * 32);
        }
#pragma unroll
        for (int slot = 0; slot < combine_slots; ++slot) {
          if (row[slot] < 0) continue;
#pragma unroll
          for (int i = 0; i < combine_accesses; ++i) {
            if (first + i * 32 >= width) continue;
            const Elements elements(chunks[slot][i]);
#pragma unroll
            for (int j = 0; j < Elements::count; ++j)
              sum[i][j] = fmaf(weight[slot], elements.value[j], sum[i][j]);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < combine_accesses; ++i)
      if (first + i * 32 < width) target[first + i * 32] = Elements::pack(sum[i]);
  }
}

/// A warp takes one assignment and walks its whole row, so the dot product has one order whatever the batch.
template <class Element, class Chunk>
__global__ void __launch_bounds__(threads)
    combine_rows_backward(RowOrder order, ChunkRows<const Chunk> rows, const float* __restrict__ weights,
                          ChunkRows<const Chunk> out_gradient, ChunkRows<Chunk> rows_gradient,
                          float* weights_gradient, std::int64_t width) {
  using Elements = ChunkElements<Element, Chunk>;
  const int lane = threadIdx.x % 32;
  for (std::int64_t assignment = global_warp(); assignment < order.tokens * order.top_k;
       assignment += grid_warps()) {
    const std::int32_t row = order.assignment_to_row[assignment];
    if (row < 0) {
      if (weights_gradient != nullptr && lane == 0) weights_gradient[assignment] = 0.0f;
      continue;
    }
    const float weight = weights != nullptr ? weights[assignment] : 1.0f;
    const Chunk* const gradient = out_gradient.row(assignment / order.top_k);
    float dot[backward_accesses] = {};
    for (std::int64_t first = lane; first - lane < width; first += 32 * backward_accesses) {
      Chunk gradient_chunks[backward_accesses], row_chunks[backward_accesses];
#pragma unroll
      for (int i = 0; i < backward_accesses; ++i) {
        if (first + i * 32 >= width) continue;
        gradient_chunks[i] = __ldg(gradient + first + i * 32);
        if (weights_gradient != nullptr) row_chunks[i] = __ldcs(rows.row(row) + first + i * 32);
      }
#pragma unroll
      for (int i = 0; i < backward_accesses; ++i) {
        if (first + i * 32 >= width) continue;
        const Elements g(gradient_chunks[i]);
        if (weights_gradient != nullptr) {
          const Elements r(row_chunks[i]);
#pragma unroll
          for (int j = 0; j < Elements::count; ++j) dot[i] = fmaf(g.value[j], r.value[j], dot[i]);
        }
        if (rows_gradient.data != nullptr) {
          float scaled[Elements::count];
#pragma unroll
          for (int j = 0; j < Elements::count; ++j) scaled[j] = weight * g.value[j];
          rows_gradient.row(row)[first + i * 32] = Elements::pack(scaled);
        }
      }
    }
    if (weights_gradient != nullptr) {
      float sum = (dot[0] + dot[1]) + (dot[2] + dot[3]);
#pragma unroll
      for (int distance = 16; distance > 0; distance /= 2)
        sum += __shfl_xor_sync(full_warp_mask, sum, distance);
      if (lane == 0) weights_gradient[assignment] = sum;
    }
  }
}
static_assert(backward_accesses == 4, "the sum of the partial dot products names four of them");

/// Collects the checks of one call, and whether 16-byte chunks fit all its operands.
class Operands {
 public:
  Operands(const RowOrder& order, ElementType type, std::int64_t columns)
      : type_(type), columns_(columns), aligned_(columns * element_bytes(type) % 16 == 0) {
    if (order.tokens < 0) throw Error("order.tokens", std::to_string(order.tokens), "0 or more");
    if (order.top_k < 1 || order.top_k > 128)
      throw Error("order.top_k", std::to_string(order.top_k), "1..128");
    checked_int32(checked_product(order.tokens, order.top_k, "order.tokens * top_k"), "order.tokens * top_k");
    if (columns < 0) throw Error("columns", std::to_string(columns), "0 or more");
    if (order.tokens > 0 && order.assignment_to_row == nullptr)
      throw Error("order.assignment_to_row", "null", "device memory");
    empty_ = order.tokens == 0 || columns == 0;
  }
  template <class View>
  void add(const View& view, const char* argument) {
    if (view.type != type_)
      throw Error(std::string(argument) + ".type", element_name(view.type), element_name(type_));
    if (view.leading_dimension < columns_)
      throw Error(std::string(argument) + ".leading_dimension", std::to_string(view.leading_dimension),
                  "at least columns = " + std::to_string(columns_));
    if (!empty_ && view.data == nullptr)
      throw Error(std::string(argument) + ".data", "null", "device memory");
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    if (address % static_cast<std::uintptr_t>(element_bytes(type_)) != 0)
      throw Error(std::string(argument) + ".data", "not aligned", "a multiple of the element's bytes");
    aligned_ = aligned_ && address % 16 == 0 && view.leading_dimension * element_bytes(type_) % 16 == 0;
  }
  bool empty() const { return empty_; }
  ElementType type() const { return type_; }
  int chunk_bytes() const { return aligned_ ? 16 : static_cast<int>(element_bytes(type_)); }

 private:
  ElementType type_;
  std::int64_t columns_;
  bool aligned_;
  bool empty_ = false;
};

template <class Chunk>
ChunkRows<const Chunk> chunk_rows(const RowsView& view) {
  return {static_cast<const Chunk*>(view.data),
          view.leading_dimension * element_bytes(view.type) / std::int64_t{sizeof(Chunk)}};
}
template <class Chunk>
ChunkRows<Chunk> chunk_rows(const MutableRowsView& view) {
  return {static_cast<Chunk*>(view.data),
          view.leading_dimension * element_bytes(view.type) / std::int64_t{sizeof(Chunk)}};
}

/// Blocks for `warps` warps; kernels loop, so a cap costs nothing but never passes a grid's limit.
unsigned blocks_for(std::int64_t warps) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::int64_t blocks = ceil_div(warps, threads / 32);
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

template <class Element, int chunk_bytes>
struct ElementChunk {
  using ElementT = Element;
  using Chunk = typename ChunkType<chunk_bytes>::type;
};

/// Calls `function` with the ElementChunk of these operands.
template <class Function>
void with_element_chunk(const Operands& operands, Function function) {
  const bool vectors = operands.chunk_bytes() == 16;
  switch (operands.type()) {
    case ElementType::bf16:
      return vectors ? function(ElementChunk<__nv_bfloat16, 16>{})
                     : function(ElementChunk<__nv_bfloat16, 2>{});
    case ElementType::fp16:
      return vectors ? function(ElementChunk<__half, 16>{}) : function(ElementChunk<__half, 2>{});
    case ElementType::fp32:
      return vectors ? function(ElementChunk<float, 16>{}) : function(ElementChunk<float, 4>{});
  }
  throw Error("type", std::to_string(static_cast<int>(operands.type())), "bf16, fp16 or fp32");
}

template <class Chunk>
void launch_gather(const RowOrder& order, const RowsView& x, const MutableRowsView& rows,
                   std::int64_t row_bytes, Stream stream) {
  const std::int64_t width = row_bytes / std::int64_t{sizeof(Chunk)};
  const std::int64_t segments = ceil_div(width, 32 * gather_accesses);
  launch("gather_rows", gather_rows<Chunk>, blocks_for(order.tokens * segments), threads, 0, stream,
         LaunchOrder::after_previous, order, chunk_rows<Chunk>(x), chunk_rows<Chunk>(rows), width, segments);
}

}  // namespace

void gather(const RowOrder& order, const RowsView& x, const MutableRowsView& rows, std::int64_t columns,
            Stream stream) {
  Operands operands(order, x.type, columns);
  operands.add(x, "x");
  operands.add(rows, "rows");
  if (operands.empty()) return;
  const std::int64_t row_bytes = columns * element_bytes(x.type);
  switch (operands.chunk_bytes()) {
    case 16:
      return launch_gather<ChunkType<16>::type>(order, x, rows, row_bytes, stream);
    case 4:
      return launch_gather<ChunkType<4>::type>(order, x, rows, row_bytes, stream);
    default:
      return launch_gather<ChunkType<2>::type>(order, x, rows, row_bytes, stream);
  }
}

void combine(const RowOrder& order, const RowsView& rows, const float* weights, const MutableRowsView& out,
             std::int64_t columns, bool accumulate, Stream stream) {
  Operands operands(order, rows.type, columns);
  operands.add(rows, "rows");
  operands.add(out, "out");
  if (operands.empty()) return;
  with_element_chunk(operands, [&](auto types) {
    using Types = decltype(types);
    using Chunk = typename Types::Chunk;
    const std::int64_t width = columns * element_bytes(rows.type) / std::int64_t{sizeof(Chunk)};
    const std::int64_t segments = ceil_div(width, 32 * combine_accesses);
    launch("combine_rows", combine_rows<typename Types::ElementT, Chunk>, blocks_for(order.tokens * segments),
           threads, 0, stream, LaunchOrder::after_previous, order, chunk_rows<Chunk>(rows), weights,
           chunk_rows<Chunk>(out), width, segments, accumulate);
  });
}

void combine_backward(const RowOrder& order, const RowsView& rows, const float* weights,
                      const RowsView& out_gradient, const CombineGradients& gradients, std::int64_t columns,
                      Stream stream) {
  Operands operands(order, out_gradient.type, columns);
  operands.add(out_gradient, "out_gradient");
  if (gradients.weights != nullptr) operands.add(rows, "rows");
  if (gradients.rows.data != nullptr) operands.add(gradients.rows, "gradients.rows");
  if (order.tokens == 0 || (gradients.weights == nullptr && gradients.rows.data == nullptr)) return;
  with_element_chunk(operands, [&](auto types) {
    using Types = decltype(types);
    using Chunk = typename Types::Chunk;
    const std::int64_t width = columns * element_bytes(out_gradient.type) / std::int64_t{sizeof(Chunk)};
    launch("combine_rows_backward", combine_rows_backward<typename Types::ElementT, Chunk>,
           blocks_for(order.tokens * order.top_k), threads, 0, stream, LaunchOrder::after_previous, order,
           chunk_rows<Chunk>(rows), weights, chunk_rows<Chunk>(out_gradient),
           chunk_rows<Chunk>(gradients.rows), gradients.weights, width);
  });
}

}  // namespace dropless
