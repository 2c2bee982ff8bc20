// The portable tensor-core kernel for bf16 and fp16: compute capability 8.0 and later, no Hopper instruction,
// less than 99 KiB of shared memory. A persistent grid of 256-thread blocks walks 128 x 256 tiles; each warp
// computes 64 x 64 of a tile from a pipeline of four stages of 32 values of k.
//
// The two warp rows take the 16-row pieces of a tile in turn, so a short tile keeps both busy and spends
// arithmetic on its rows rounded up to 16 only: the scheduled rows of row_tiles.hpp. Each output element
// takes k in ascending steps of 16 through one accumulator whatever the tile's height, so a row's bits never
// depend on other rows.
#pragma once
#include <limits>

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

  /// The same for a stage whose values of k all exist, with no arithmetic for ends. Where d has ended the
  /// stage keeps what it held: no sum of such a d is stored.
  __device__ __forceinline__ void load_whole(std::uint32_t stage, int share, int shares) const {
    const std::uint32_t slot =
        stage + Layout{KInner}.slot(row(), column() / chunk_elements) * static_cast<int>(sizeof(uint4));
#pragma unroll
    for (int pass = share * passes / shares; pass < (share + 1) * passes / shares; ++pass)
      copy_whole_chunk_async(slot + pass * row_step * chunks_per_row * static_cast<int>(sizeof(uint4)),
                             source_ + pass * pass_, (KInner ? pass * row_step : 0) < d_left_);
  }
  /// Whether load_whole may be used: d ends with a whole chunk.
  static __device__ __forceinline__ bool whole_chunks(int extent) {
    return ByChunks && (KInner || extent % chunk_elements == 0);
  }
  /// Makes load_whole copy nothing.
  __device__ __forceinline__ void stop() { d_left_ = 0; }

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
  static constexpr int rows = 128, columns = static_cast<int>(widest_tile_columns), depth = 32, stages = 4,
                       threads = 256;
  using AStage = OperandStage<rows, depth>;
  using BStage = OperandStage<columns, depth>;
  static constexpr int stage_chunks = AStage::chunks + BStage::chunks;
  static constexpr int stage_bytes = stage_chunks * static_cast<int>(sizeof(uint4));
  static constexpr int shared_bytes = stages * stage_bytes;

  __device__ explicit TensorCoreTile(uint4* shared)
      : shared_(shared), shared_address_(shared_address(shared)) {
    const WarpPlace place = warp_place(warp_uniform(static_cast<int>(threadIdx.x) / 32));
    warp_row_ = place.row;
    warp_column_ = place.column * warp_tile;
    a_slot_ = first_piece_slot(AStage{AKInner}, lane(), true, warp_row_ * piece);
    b_slot_ = first_piece_slot(BStage{BKInner}, lane(), false, warp_column_);
  }

  /// Starts loading a tile: all stages. Every thread of the block must be done with those of the last tile.
  __device__ __forceinline__ void start(const TileProblem<Element>& problem) {
    next_stage_ = 0;
    part_ = 0;
    whole_chunks_ = decltype(a_)::whole_chunks(warp_uniform(problem.rows)) &&
                    decltype(b_)::whole_chunks(warp_uniform(problem.columns));
    aim(problem);
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      load_any();
      finish_load<false>(problem);
    }
  }

  /// Sums up the tile that `start` began. k is taken in steps of 32; the zeros past its end change no sum.
  __device__ __forceinline__ void multiply(const TileProblem<Element>& problem) {
#pragma unroll
    for (auto& piece_sums : sums_)
#pragma unroll
      for (auto& fragment : piece_sums)
#pragma unroll
        for (float& sum : fragment) sum = 0.0f;
    int steps_left =
        warp_uniform(problem.k_parts) * static_cast<int>(ceil_div(warp_uniform(problem.k_part), depth));
    if (steps_left == 0) return;
    const int pieces = pieces_of_warp(warp_uniform(problem.rows), warp_uniform(problem.columns));
    std::uint32_t stage = 0;
    Fragments fragments[2];
    wait_for_copies<stages - 1>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < pieces_per_warp; ++i) load_fragments(fragments[0], i, 0, 0);
#pragma unroll 1
    while (steps_left > 0) {
      const int whole = min(whole_steps_left(), steps_left);
      if constexpr (ByChunks)
#pragma unroll 1
        for (int left = whole; left > 0; --left) step<true>(problem, fragments, stage, pieces);
      if (whole == 0) step<false>(problem, fragments, stage, pieces);
      steps_left -= max(whole, 1);
    }
  }

  __device__ __forceinline__ void store(const TileProblem<Element>& problem, ElementType out_type,
                                        bool accumulate) const {
    const int first_row = warp_row_ * piece, first_column = warp_column_;
    AccumulatorStore to(
        problem.out + (first_row * problem.out_leading_dimension + first_column) * element_bytes(out_type),
        problem.out_leading_dimension, out_type, accumulate, problem.rows - first_row,
        problem.columns - first_column, lane());
    to.template pieces<Element>(sums_, warp_rows * piece);
  }

 private:
  static constexpr int piece = 16, warp_tile = 64, warp_rows = 2;
  static constexpr int pieces_per_warp = warp_tile / piece;

  __device__ __forceinline__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// How many 16-row pieces of a tile this warp computes.
  __device__ __forceinline__ int pieces_of_warp(int tile_rows, int tile_columns) const {
    return warp_column_ < tile_columns ? pieces_of_warp_row(tile_rows, warp_row_, warp_rows) : 0;
  }

  /// 16 values of k of the warp's part of both operands, as mma takes them.
  struct Fragments {
    std::uint32_t a[pieces_per_warp][4];
    std::uint32_t b[warp_tile / 16][4];
  };

  /// Multiplies the 32 values of k of `stage`, of which fragments[0] has the first 16, and leaves those of
  /// the next stage there: while 16 values are multiplied, the fragments of the next 16 are read. Once all
  /// warps have read a stage its refill begins, spread over the step's second half, since many copies at once
  /// hold up the reads of fragments. `Whole`: what the copies touch is a whole stage, or nothing.
  template <bool Whole>
  __device__ __forceinline__ void step(const TileProblem<Element>& problem, Fragments (&fragments)[2],
                                       std::uint32_t& stage, int pieces) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (half == 1) stage = after(stage);
#pragma unroll
      for (int i = 0; i < pieces_per_warp; ++i) {
        load_fragments(fragments[1 - half], i, stage, 1 - half);
        if (half == 1) load_share<Whole>(i, pieces_per_warp);
        if (half == 0 && i + 1 == pieces_per_warp) {
          wait_for_copies<stages - 2>();
          __syncthreads();
        }
        multiply_piece(i, fragments[half], i < pieces);
      }
      if (half == 1) finish_load<Whole>(problem);
    }
  }
  static __device__ __forceinline__ std::uint32_t after(std::uint32_t stage) {
    return stage + stage_bytes == shared_bytes ? 0 : stage + stage_bytes;
  }

  __device__ __forceinline__ void aim(const TileProblem<Element>& problem) {
    a_.aim(problem.a + static_cast<std::int64_t>(part_) * problem.k_part, problem.a_leading_dimension,
           problem.rows);
    b_.aim(part_ == 0 ? problem.b : problem.b_second, problem.b_leading_dimension, problem.columns);
    k_left_ = warp_uniform(problem.k_part);
    parts_left_ = warp_uniform(problem.k_parts) - 1 - part_;
  }

  /// Starts the copies of share `share` of [0, shares) of the next 32 values of k, which all exist if `Whole`
  /// (or none does).
  template <bool Whole>
  __device__ __forceinline__ void load_share(int share, int shares) const {
    if constexpr (Whole) {
      a_.load_whole(shared_address_ + next_stage_, share, shares);
      b_.load_whole(shared_address_ + next_stage_ + AStage::chunks * sizeof(uint4), share, shares);
    } else {
      uint4* const stage = shared_ + next_stage_ / sizeof(uint4);
      a_.load(stage, k_left_, share, shares);
      b_.load(stage + AStage::chunks, k_left_, share, shares);
    }
  }
  /// Starts all copies of a stage, whether all exist or not.
  __device__ __forceinline__ void load_any() const {
    if (ByChunks && whole_chunks_ && k_left_ >= depth)
      load_share<ByChunks>(0, 1);
    else
      load_share<false>(0, 1);
  }
  /// Makes one commit group of all shares, and moves on to the 32 values of k after them, to another part or,
  /// where no k is left, to loading nothing. `Whole`: another part cannot follow.
  template <bool Whole>
  __device__ __forceinline__ void finish_load(const TileProblem<Element>& problem) {
    commit_copies();
    next_stage_ = after(next_stage_);
    a_.move_to_next_stage();
    b_.move_to_next_stage();
    k_left_ -= depth;
    if (k_left_ > 0) return;
    if (!Whole && parts_left_ > 0) {
      ++part_;
      aim(problem);
    } else {
      a_.stop();
      b_.stop();
    }
  }
  /// How many steps from here on load whole stages alone, none of them a part's last, or nothing.
  __device__ __forceinline__ int whole_steps_left() const {
    if (!whole_chunks_) return 0;
    if (parts_left_ == 0 && (k_left_ <= 0 || k_left_ % depth == 0)) return std::numeric_limits<int>::max();
    return (k_left_ - 1) / depth;
  }

  /// Part i of the fragments, in the order in which the multiplications want them.
  __device__ __forceinline__ void load_fragments(Fragments& to, int i, std::uint32_t stage, int half) const {
    constexpr int chunk_bytes = sizeof(uint4);
    const std::uint32_t a = shared_address_ + stage, b = a + AStage::chunks * chunk_bytes;
    const auto load_a = [&](int piece_index) {
      load_matrices(
          to.a[piece_index],
          a + piece_slot(AStage{AKInner}, a_slot_, warp_rows * piece, piece_index, half) * chunk_bytes,
          !AKInner);
    };
    const auto load_b = [&](int columns) {
      load_matrices(to.b[columns], b + piece_slot(BStage{BKInner}, b_slot_, 16, columns, half) * chunk_bytes,
                    !BKInner);
    };
    if (i == 0) {
      load_a(0);
      load_b(0);
      load_b(1);
    }
    if (i == 1) {
      load_b(2);
      load_b(3);
      load_a(1);
    }
    if (i == 2) {
      load_a(2);
      load_a(3);
    }
  }

  __device__ __forceinline__ void multiply_piece(int i, const Fragments& from, bool wanted) {
#pragma unroll
    for (int j = 0; j < warp_tile / 8; ++j)
      multiply_fragments<Element>(sums_[i][j], from.a[i], from.b[j / 2][j % 2 * 2],
                                  from.b[j / 2][j % 2 * 2 + 1], wanted);
  }

  uint4* shared_;
  std::uint32_t shared_address_;
  int warp_row_, warp_column_;  // the warp's first piece and first column of a tile
  int a_slot_, b_slot_;         // where this lane's fragments begin in a stage
  float sums_[pieces_per_warp][warp_tile / 8][4];
  OperandLoader<Element, rows, depth, threads, AKInner, ByChunks> a_;
  OperandLoader<Element, columns, depth, threads, BKInner, ByChunks> b_;
  bool whole_chunks_;
  int k_left_, part_, parts_left_;
  std::uint32_t next_stage_;  // in bytes from the first
};

/// The steps of one block of the persistent grid, in shared memory: they are the first warp's alone, and
/// other warps want their registers for themselves.
template <class Element, int TileRows, int TileColumns, class Product>
class BlockSteps {
 public:
  /// By a whole warp, as find_next.
  __device__ __forceinline__ void start(const Product& product) {
    const Walk walk(product);
    if (threadIdx.x == 0) {
      walk_ = walk;
      next_ = blockIdx.x;
    }
    __syncwarp();
  }

  /// Writes the block's next tile; one without columns says that none is left.
  __device__ __forceinline__ void find_next(const Product& product, TileProblem<Element>& problem) {
    Walk walk = walk_;
    auto next = static_cast<std::uint32_t>(warp_uniform(static_cast<int>(next_)));
    const auto size = static_cast<std::uint32_t>(warp_uniform(static_cast<int>(walk.size())));
    __syncwarp();  // all have read what one of them will write
    int columns = 0;
    do {
      if (next >= size) {
        if (threadIdx.x == 0) problem.columns = 0;
        break;
      }
      const TileProblem<Element> found = walk.template problem<Element>(product, next);
      next += gridDim.x;
      columns = warp_uniform(found.columns);
      if (threadIdx.x == 0) {
        problem = found;
        walk_ = walk;
        next_ = next;
      }
    } while (columns <= 0);
    __syncwarp();
  }

 private:
  using Walk = TileWalk<TileRows, TileColumns, Product>;

  Walk walk_;
  std::uint32_t next_;
};

/// One block of the persistent grid. The loads of a tile start before the previous one is stored.
template <class Element, bool AKInner, bool BKInner, bool ByChunks, class Product>
__global__ void __launch_bounds__(256, 1)
    tensor_core_product(const __grid_constant__ Product product, ElementType out_type) {
  using Tile = TensorCoreTile<Element, AKInner, BKInner, ByChunks>;
  // On 128 bytes: from elsewhere the rows of a stage would take copies twice as many look-ups in L2.
  extern __shared__ __align__(128) uint4 shared[];
  // Three, because a slow warp may still store the last tile while the next but one is looked up.
  __shared__ TileProblem<Element> problems[3];
  __shared__ BlockSteps<Element, Tile::rows, Tile::columns, Product> steps;
  static_assert(Tile::shared_bytes + sizeof(problems) + sizeof(steps) <= 99 * 1024);
  static_assert(Tile::stage_bytes % 128 == 0);
  const auto first_warp = [] { return warp_uniform(static_cast<int>(threadIdx.x) / 32) == 0; };
  const auto find_next = [&](TileProblem<Element>& problem) {
    if (first_warp()) steps.find_next(product, problem);
  };

  if (first_warp()) steps.start(product);
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
