// Gather, combine and combine's backward: memory-bound kernels, so all that counts is that many accesses are
// in flight, that rows are touched whole, and that a launch's first and last accesses overlap its
// neighbours'. Gather and combine give a thread block a segment of one token (of a few, where rows are
// narrow), a chunk a thread: the best of the shapes that were measured. Backward gives a warp one assignment,
// whose dot product it owns. What gather and combine write is not read again there, so it passes through L2
// as a stream and leaves it to the inputs.
#include "dropless/permutation.hpp"

#include "argument_checks.hpp"
#include "current_device.hpp"
#include "launch.cuh"
#include "row_segments.cuh"
#include "scaled_combine.hpp"

namespace dropless {
namespace {

constexpr int backward_threads = 256;
constexpr unsigned full_warp_mask = 0xffffffffu;
constexpr int gather_threads = 512, combine_threads = 256;  // the most a block has
constexpr int gather_slots = 4;                             // rows whose numbers a thread fetches at once
constexpr int gather_blocks_ahead = 4;  // a multiprocessor: so far ahead gather asks for rows
constexpr int backward_accesses = 4;    // chunks a lane loads of each operand

// The kernels may start before the kernel ahead of them ends. No input goes through the read-only path
// (__ldg, __restrict__), whose loads the compiler may move ahead of the wait.

/// Asks for a token's segment and the rows of its slots to be brought into L2, where whatever a kernel still
/// at work writes to them is seen.
template <class Chunk>
__device__ void prefetch_token(const RowOrder& order, std::int64_t token, const ChunkRows<const Chunk>& x,
                               unsigned column, unsigned width) {
  constexpr unsigned line_chunks = 128 / sizeof(Chunk);
  if (token >= order.tokens) return;
  if (column % line_chunks == 0 && column < width)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(x.row(token) + column));
  if (threadIdx.x == 0)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(order.assignment_to_row + token * order.top_k));
}

template <class Chunk>
__global__ void __launch_bounds__(gather_threads)
    gather_rows(RowOrder order, ChunkRows<const Chunk> x, ChunkRows<Chunk> rows, unsigned width,
                std::int64_t tokens_ahead) {
  allow_next_kernel();
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  prefetch_token(order, SegmentGrid::first_token(), x, column, width);
  wait_for_previous_kernel();
  for (std::int64_t token = SegmentGrid::first_token(); token < order.tokens;
       token += SegmentGrid::token_step()) {
    prefetch_token(order, token + tokens_ahead, x, column, width);
    if (column >= width) continue;
    const Chunk chunk = x.row(token)[column];
    for (int first_slot = 0; first_slot < order.top_k; first_slot += gather_slots) {
      const SlotRows<gather_slots> targets(order, token, first_slot);
#pragma unroll
      for (int slot = 0; slot < gather_slots; ++slot)
        if (targets.row[slot] >= 0) __stcs(rows.row(targets.row[slot]) + column, chunk);
    }
  }
}

/// A thread has the chunks of `slots` rows in flight before it adds the first. The weights come after them,
/// so that the rows need not wait for both the order and the weights.
template <class Element, class Chunk, int slots>
__global__ void __launch_bounds__(combine_threads)
    combine_rows(RowOrder order, ChunkRows<const Chunk> rows, const float* weights, float factor,
                 ChunkRows<Chunk> out, unsigned width, bool accumulate) {
  using Elements = ChunkElements<Element, Chunk>;
  allow_next_kernel();
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  if (column >= width) return;
  wait_for_previous_kernel();
  for (std::int64_t token = SegmentGrid::first_token(); token < order.tokens;
       token += SegmentGrid::token_step()) {
    Chunk* const target = out.row(token) + column;
    float sum[Elements::count] = {};
    if (accumulate) {
      const Elements held(*target);
#pragma unroll
      for (int j = 0; j < Elements::count; ++j) sum[j] = held.value[j];
    }
    for (int first_slot = 0; first_slot < order.top_k; first_slot += slots) {
      const SlotRows<slots> sources(order, token, first_slot);
      Chunk loaded[slots];
      // Each chunk gets a value on either path; left open, the loads share registers and go one by one.
#pragma unroll
      for (int slot = 0; slot < slots; ++slot)
        loaded[slot] = sources.row[slot] >= 0 ? __ldcs(rows.row(sources.row[slot]) + column) : Chunk{};
      float weight[slots];
#pragma unroll
      for (int slot = 0; slot < slots; ++slot)
        weight[slot] = weights != nullptr && sources.row[slot] >= 0
                           ? factor * __ldca(weights + token * order.top_k + first_slot + slot)
                           : factor;
#pragma unroll
      for (int slot = 0; slot < slots; ++slot) {
        if (sources.row[slot] < 0) continue;
        const Elements elements(loaded[slot]);
#pragma unroll
        for (int j = 0; j < Elements::count; ++j) sum[j] = fmaf(weight[slot], elements.value[j], sum[j]);
      }
    }
    __stcs(target, Elements::pack(sum));
  }
}

/// A warp takes one assignment and walks its whole row, so the dot product has one order whatever the batch.
template <class Element, class Chunk>
__global__ void __launch_bounds__(backward_threads)
    combine_rows_backward(RowOrder order, ChunkRows<const Chunk> rows, const float* weights,
                          ChunkRows<const Chunk> out_gradient, ChunkRows<Chunk> rows_gradient,
                          float* weights_gradient, std::int64_t width) {
  using Elements = ChunkElements<Element, Chunk>;
  constexpr int block_warps = backward_threads / 32;
  allow_next_kernel();
  const int lane = threadIdx.x % 32;
  wait_for_previous_kernel();
  for (std::int64_t assignment = std::int64_t{blockIdx.x} * block_warps + threadIdx.x / 32;
       assignment < order.tokens * order.top_k; assignment += std::int64_t{gridDim.x} * block_warps) {
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
        gradient_chunks[i] = gradient[first + i * 32];
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
    require_at_least(order.tokens, 0, "order.tokens");
    require_between(order.top_k, 1, 128, "order.top_k");
    checked_int32(checked_product(order.tokens, order.top_k, "order.tokens * top_k"), "order.tokens * top_k");
    require_at_least(columns, 0, "columns");
    require_memory(order.assignment_to_row, order.tokens > 0, sizeof(std::int32_t),
                   "order.assignment_to_row");
    empty_ = order.tokens == 0 || columns == 0;
  }
  template <class View>
  void add(const View& view, const std::string& argument) {
    require_type(view.type, type_, argument + ".type");
    require_leading_dimension(view.leading_dimension, columns_, argument + ".leading_dimension");
    require_memory(view.data, !empty_, element_bytes(type_), argument + ".data");
    aligned_ = aligned_ && reinterpret_cast<std::uintptr_t>(view.data) % 16 == 0 &&
               view.leading_dimension * element_bytes(type_) % 16 == 0;
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

void check_device(const RowOrder& order) {
  check_current_device(order.assignment_to_row, "order.assignment_to_row");
}

template <class Chunk>
void launch_gather(const RowOrder& order, const RowsView& x, const MutableRowsView& rows,
                   std::int64_t row_bytes, Stream stream) {
  const auto width = static_cast<unsigned>(checked_int32(row_bytes / std::int64_t{sizeof(Chunk)}, "columns"));
  const SegmentGrid blocks(order.tokens, width, gather_threads);
  const std::int64_t tokens_ahead =
      std::int64_t{gather_blocks_ahead} * blocks.block.y * current_device_properties().multiprocessors;
  launch("gather_rows", gather_rows<Chunk>, blocks.grid, blocks.block, 0, stream,
         LaunchOrder::overlap_previous, order, chunk_rows<Chunk>(x), chunk_rows<Chunk>(rows), width,
         tokens_ahead);
}

template <class Types, int slots>
void launch_combine(const RowOrder& order, const RowsView& rows, const float* weights, float factor,
                    const MutableRowsView& out, std::int64_t row_bytes, bool accumulate, Stream stream) {
  using Chunk = typename Types::Chunk;
  const auto width = static_cast<unsigned>(checked_int32(row_bytes / std::int64_t{sizeof(Chunk)}, "columns"));
  const SegmentGrid blocks(order.tokens, width, combine_threads);
  launch("combine_rows", combine_rows<typename Types::ElementT, Chunk, slots>, blocks.grid, blocks.block, 0,
         stream, LaunchOrder::overlap_previous, order, chunk_rows<Chunk>(rows), weights, factor,
         chunk_rows<Chunk>(out), width, accumulate);
}

}  // namespace

void gather(const RowOrder& order, const RowsView& x, const MutableRowsView& rows, std::int64_t columns,
            Stream stream) {
  Operands operands(order, x.type, columns);
  operands.add(x, "x");
  operands.add(rows, "rows");
  check_device(order);
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
  combine_scaled(order, rows, weights, 1.0f, out, columns, accumulate, stream);
}

void combine_scaled(const RowOrder& order, const RowsView& rows, const float* weights, float factor,
                    const MutableRowsView& out, std::int64_t columns, bool accumulate, Stream stream) {
  Operands operands(order, rows.type, columns);
  operands.add(rows, "rows");
  operands.add(out, "out");
  check_device(order);
  if (operands.empty()) return;
  const std::int64_t row_bytes = columns * element_bytes(rows.type);
  with_element_chunk(operands, [&](auto types) {
    using Types = decltype(types);
    const auto launch_slots = order.top_k <= 2 ? launch_combine<Types, 2> : launch_combine<Types, 4>;
    launch_slots(order, rows, weights, factor, out, row_bytes, accumulate, stream);
  });
}

void combine_backward(const RowOrder& order, const RowsView& rows, const float* weights,
                      const RowsView& out_gradient, const CombineGradients& gradients, std::int64_t columns,
                      Stream stream) {
  Operands operands(order, out_gradient.type, columns);
  operands.add(out_gradient, "out_gradient");
  if (gradients.weights != nullptr) operands.add(rows, "rows");
  if (gradients.rows.data != nullptr) operands.add(gradients.rows, "gradients.rows");
  check_device(order);
  if (order.tokens == 0 || (gradients.weights == nullptr && gradients.rows.data == nullptr)) return;
  with_element_chunk(operands, [&](auto types) {
    using Types = decltype(types);
    using Chunk = typename Types::Chunk;
    const std::int64_t width = columns * element_bytes(out_gradient.type) / std::int64_t{sizeof(Chunk)};
    // top_k and tokens are checked: their product, and so the blocks, fit in an int.
    const auto blocks = static_cast<unsigned>(ceil_div(order.tokens * order.top_k, backward_threads / 32));
    launch("combine_rows_backward", combine_rows_backward<typename Types::ElementT, Chunk>, blocks,
           backward_threads, 0, stream, LaunchOrder::overlap_previous, order, chunk_rows<Chunk>(rows),
           weights, chunk_rows<Chunk>(out_gradient), chunk_rows<Chunk>(gradients.rows), gradients.weights,
           width);
  });
}

}  // namespace dropless
