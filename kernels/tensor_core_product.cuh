// The portable tensor-core kernel for bf16 and fp16: compute capability 8.0 and later, no Hopper instruction,
// less than 99 KiB of shared memory. A persistent grid of 256-thread blocks walks 128 x 256 tiles; each warp
// computes 64 x 64 of a tile from a pipeline of four stages of 32 values of k.
//
// The two warp rows take the 16-row pieces of a tile in turn, so a short tile keeps both busy and spends
// arithmetic on its rows rounded up to 16 only: the scheduled rows of row_tiles.hpp. Each output element
// takes k in ascending steps of 16 through one accumulator whatever the tile's height, so a row's bits never
// depend on other rows.
#pragma once
#include "launch.cuh"
#include "mma_tile.cuh"
#include "tensor_core_store.cuh"
#include "tile_problem.cuh"

namespace dropless {

/// One thread's share of an operand's loads: D values of d (rows or columns of the tile) by `depth` values of
/// k a stage, k innermost in memory or outermost. `ByChunks`: 16-byte asynchronous copies reach every chunk.
template <class Element, int D, int Depth, int Threads, bool KInner, bool ByChunks>
class OperandLoader {
 public:
  using Layout = OperandStage<D, Depth>;
  static constexpr int chunks_per_row = (KInner ? Depth : D) / chunk_elements;
  static constexpr int row_step = Threads / chunks_per_row;
  static constexpr int passes = Layout::chunks / Threads;
  static_assert(row_step % 8 == 0, "the swizzle repeats every 8 rows, so all passes share one turn");

  /// Starts at `base`, the operand's first element of a k part; `extent` values of d exist.
  __device__ __forceinline__ void aim(const Element* base, std::int64_t leading_dimension, int extent) {
    source_ = base + row() * leading_dimension + column();
    pass_ = row_step * leading_dimension;
    d_left_ = extent - (KInner ? row() : column());
  }

  /// Copies share `share` of [0, shares) of the next stage, of which `k_left` values of k exist; nothing
  /// where none does.
  __device__ __forceinline__ void load(uint4* stage, int k_left, int share, int shares) const {
    uint4* slot = stage + Layout{KInner}.slot(row(), column() / chunk_elements);
    const int inner_left = KInner ? k_left - column() : d_left_,
              rows_left = KInner ? d_left_ : k_left - row();
    const int present = min(max(inner_left, 0), chunk_elements);
#pragma unroll
    for (int pass = share * passes / shares; pass < (share + 1) * passes / shares; ++pass)
      load_chunk<ByChunks>(slot + pass * row_step * chunks_per_row, source_ + pass * pass_,
                           pass * row_step < rows_left ? present : 0, k_left > 0);
  }

  __device__ __forceinline__ void move_to_next_stage() {
    source_ += KInner ? Depth : pass_ * (Depth / row_step);
  }

 private:
  __device__ __forceinline__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ __forceinline__ static int row() { return Layout{KInner}.row_of(thread()); }
  __device__ __forceinline__ static int column() {
    return Layout{KInner}.chunk_of(thread()) * chunk_elements;
  }

  const Element* source_;
  std::int64_t pass_;
  int d_left_;
};

template <class Element, bool AKInner, bool BKInner, bool ByChunks>
class TensorCoreTile {
 public:
  static constexpr int rows = 128, columns = 256, depth = 32, stages = 4, threads = 256;
  using AStage = OperandStage<rows, depth>;
  using BStage = OperandStage<columns, depth>;
  static constexpr int stage_chunks = AStage::chunks + BStage::chunks;
  static constexpr int shared_bytes = stages * stage_chunks * static_cast<int>(sizeof(uint4));

  __device__ explicit TensorCoreTile(uint4* shared) : shared_(shared) {
    const WarpPlace place = warp_place(warp_uniform(static_cast<int>(threadIdx.x) / 32));
    warp_row_ = place.row;
    warp_column_ = place.column * warp_tile;
    a_slot_ = first_piece_slot(AStage{AKInner}, lane(), true, warp_row_ * piece);
    b_slot_ = first_piece_slot(BStage{BKInner}, lane(), false, warp_column_);
  }

  /// Starts loading a tile. Every thread of the block must be done with the stages of the last one.
  __device__ __forceinline__ void start(const TileProblem<Element>& problem) {
    next_stage_ = 0;
    part_ = 0;
    aim(problem);
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      load_share(0, 1);
      finish_load(problem);
    }
  }

  /// Sums up the tile that `start` began.
  __device__ __forceinline__ void multiply(const TileProblem<Element>& problem) {
    const int tile_rows = warp_uniform(problem.rows), tile_columns = warp_uniform(problem.columns);
    const bool nearly_full = tile_rows > rows - warp_rows * piece && tile_columns > columns - warp_tile;
    const int pieces = pieces_of_warp(tile_rows, tile_columns);
    if (nearly_full)
      sum_up<pieces_per_warp - 1>(problem, pieces);
    else
      sum_up<0>(problem, pieces);
  }

  __device__ __forceinline__ void store(const TileProblem<Element>& problem, ElementType out_type,
                                        bool accumulate) const {
    const int first_row = warp_row_ * piece, first_column = warp_column_;
    AccumulatorStore to(
        problem.out + (first_row * problem.out_leading_dimension + first_column) * element_bytes(out_type),
        problem.out_leading_dimension, out_type, accumulate, problem.rows - first_row,
        problem.columns - first_column, lane());
    const int pieces = pieces_of_warp(problem.rows, problem.columns);
#pragma unroll
    for (int i = 0; i < pieces_per_warp; ++i) {
      if (i >= pieces) break;
      to.template half_piece<Element>(sums_[i], 0);
      to.move_down(piece / 2);
      to.template half_piece<Element>(sums_[i], 1);
      to.move_down(warp_rows * piece - piece / 2);
    }
  }

 private:
  static constexpr int piece = 16, warp_tile = 64, warp_rows = 2;
  static constexpr int pieces_per_warp = warp_tile / piece;

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// How many 16-row pieces of a tile this warp computes.
  __device__ __forceinline__ int pieces_of_warp(int tile_rows, int tile_columns) const {
    return warp_column_ < tile_columns ? pieces_of_warp_row(tile_rows, warp_row_, warp_rows) : 0;
  }

  /// While 16 values of k are multiplied, the fragments of the next 16 are read; a stage is in registers as a
  /// whole before its second half is multiplied, and the copies that refill it are started between the
  /// multiplications of that half. The caller promises that every warp of the block has at least
  /// `CertainPieces`, so that these are multiplied without asking. k is taken in steps of 32; the zeros past
  /// its end change no sum.
  template <int CertainPieces>
  __device__ __forceinline__ void sum_up(const TileProblem<Element>& problem, int pieces) {
#pragma unroll
    for (auto& piece_sums : sums_)
#pragma unroll
      for (auto& fragment : piece_sums)
#pragma unroll
        for (float& sum : fragment) sum = 0.0f;
    int steps_left =
        warp_uniform(problem.k_parts) * static_cast<int>(ceil_div(warp_uniform(problem.k_part), depth));
    if (steps_left == 0) return;
    int stage = 0;
    Fragments low, high;
    wait_for_copies<stages - 1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < pieces_per_warp; ++i) load_fragments(low, i, 0, 0);
#pragma unroll 1
    for (; steps_left > 0; --steps_left) {
#pragma unroll
      for (int i = 0; i < pieces_per_warp; ++i) {
        load_fragments(high, i, stage, 1);
        if (i + 1 == pieces_per_warp) {
          wait_for_copies<stages - 2>();
          __syncthreads();
        }
        if (i < CertainPieces || i < pieces) multiply_piece(i, low);
      }
      stage = (stage + 1) % stages;
#pragma unroll
      for (int i = 0; i < pieces_per_warp; ++i) {
        load_fragments(low, i, stage, 0);
        load_share(i, pieces_per_warp);
        if (i < CertainPieces || i < pieces) multiply_piece(i, high);
      }
      finish_load(problem);
    }
  }

  __device__ __forceinline__ void aim(const TileProblem<Element>& problem) {
    a_.aim(problem.a + static_cast<std::int64_t>(part_) * problem.k_part, problem.a_leading_dimension,
           problem.rows);
    b_.aim(part_ == 0 ? problem.b : problem.b_second, problem.b_leading_dimension, problem.columns);
    k_left_ = warp_uniform(problem.k_part);
    parts_left_ = warp_uniform(problem.k_parts) - 1 - part_;
  }

  /// Starts the copies of share `share` of [0, shares) of the next 32 values of k, or none where no k is
  /// left.
  __device__ __forceinline__ void load_share(int share, int shares) const {
    uint4* stage = shared_ + next_stage_ * stage_chunks;
    a_.load(stage, k_left_, share, shares);
    b_.load(stage + AStage::chunks, k_left_, share, shares);
  }
  /// Makes one commit group of all shares, and moves on to the 32 values of k after them.
  __device__ __forceinline__ void finish_load(const TileProblem<Element>& problem) {
    commit_copies();
    next_stage_ = (next_stage_ + 1) % stages;
    a_.move_to_next_stage();
    b_.move_to_next_stage();
    k_left_ -= depth;
    if (k_left_ <= 0 && parts_left_ > 0) {
      ++part_;
      aim(problem);
    }
  }

  /// 16 values of k of the warp's part of both operands, as mma takes them.
  struct Fragments {
    std::uint32_t a[pieces_per_warp][4];
    std::uint32_t b[warp_tile / 16][4];
  };

  /// Piece i of a and 16 columns of b.
  __device__ __forceinline__ void load_fragments(Fragments& to, int i, int stage, int half) const {
    const uint4* a = shared_ + stage * stage_chunks;
    const uint4* b = a + AStage::chunks;
    load_matrices(to.a[i], a + piece_slot(AStage{AKInner}, a_slot_, warp_rows * piece, i, half), !AKInner);
    load_matrices(to.b[i], b + piece_slot(BStage{BKInner}, b_slot_, 16, i, half), !BKInner);
  }

  __device__ __forceinline__ void multiply_piece(int i, const Fragments& from) {
#pragma unroll
    for (int j = 0; j < warp_tile / 8; ++j)
      multiply_fragments<Element>(sums_[i][j], from.a[i], from.b[j / 2][j % 2 * 2],
                                  from.b[j / 2][j % 2 * 2 + 1]);
  }

  uint4* shared_;
  int warp_row_, warp_column_;  // the warp's first piece and first column of a tile
  int a_slot_, b_slot_;         // where this lane's fragments begin in a stage
  float sums_[pieces_per_warp][warp_tile / 8][4];
  OperandLoader<Element, rows, depth, threads, AKInner, ByChunks> a_;
  OperandLoader<Element, columns, depth, threads, BKInner, ByChunks> b_;
  int k_left_, part_, parts_left_, next_stage_;
};

/// One block of the persistent grid. The loads of a tile start before the previous one is stored.
template <class Element, bool AKInner, bool BKInner, bool ByChunks, class Product>
__global__ void __launch_bounds__(256, 1)
    tensor_core_product(const __grid_constant__ Product product, ElementType out_type) {
  using Tile = TensorCoreTile<Element, AKInner, BKInner, ByChunks>;
  extern __shared__ uint4 shared[];
  // Three, because a slow warp may still store the last tile while the next but one is looked up.
  __shared__ TileProblem<Element> problems[3];
  using Steps = decltype(steps_of<Tile::rows, Tile::columns>(product));
  __shared__ Steps steps;  // of thread 0 alone, out of the registers of the others

  std::int64_t index = blockIdx.x;
  if (threadIdx.x == 0) steps = steps_of<Tile::rows, Tile::columns>(product);
  // By thread 0; a problem without columns says that no tile is left.
  const auto find_next = [&](TileProblem<Element>& problem) {
    if (threadIdx.x != 0) return;
    problem.columns = 0;
    for (; index < steps.size() && problem.columns <= 0; index += gridDim.x) {
      const auto step = steps.at(index);
      if (has_rows(product, step)) problem = tile_problem<Element, Tile::rows, Tile::columns>(product, step);
    }
    problem.columns = max(problem.columns, 0);
  };

  find_next(problems[0]);
  __syncthreads();
  if (warp_uniform(problems[0].columns) == 0) return;
  Tile tile(shared);
  tile.start(problems[0]);
  for (int current = 0;;) {
    const int next = current == 2 ? 0 : current + 1;
    find_next(problems[next]);
    tile.multiply(problems[current]);
    __syncthreads();
    const bool more = warp_uniform(problems[next].columns) > 0;
    if (more) tile.start(problems[next]);
    tile.store(problems[current], out_type, product.accumulate);
    if (!more) return;
    current = next;
  }
}

template <class Element, bool AKInner, bool BKInner, bool ByChunks, class Product>
void launch_tensor_core_product(const Product& product, ElementType out_type, Stream stream) {
  using Tile = TensorCoreTile<Element, AKInner, BKInner, ByChunks>;
  launch("tensor_core_product", tensor_core_product<Element, AKInner, BKInner, ByChunks, Product>,
         grid_blocks<Tile::rows, Tile::columns>(product), Tile::threads, Tile::shared_bytes, stream,
         LaunchOrder::after_previous, product, out_type);
}

}  // namespace dropless
