// The calls of cuBLAS as a user of each form would write them, over the ring's operands.
#include "cublas_peers.hpp"

#include <cublas_v2.h>

#include <array>
#include <cstddef>
#include <utility>

#include "cuda_check.hpp"
#include "device_memory.hpp"

#define DROPLESS_CUBLAS_CHECK(call)                                                                \
  do {                                                                                             \
    if (const cublasStatus_t dropless_status_ = (call); dropless_status_ != CUBLAS_STATUS_SUCCESS) \
      throw ::dropless::CudaError(#call, ::cublasGetStatusName(dropless_status_));                 \
  } while (false)

namespace dropless::benchmark {
namespace {

constexpr std::size_t side_streams = 4;
constexpr float one = 1, zero = 0;

cudaDataType_t data_type(ElementType type) { return type == ElementType::bf16 ? CUDA_R_16BF : CUDA_R_16F; }

/// One product in cuBLAS's column-major terms. A row-major matrix is the transpose of a column-major one, so
/// out = in W becomes out^T = W^T in^T, and dW = a^T b becomes dW^T = b^T a.
struct Gemm {
  cublasOperation_t first_operation, second_operation;
  int m, n, k;
  const void *first, *second;
  int first_pitch, second_pitch;
  void* result;
  int result_pitch;
};

/// `rows` rows from `first_row` on, with the expert's matrix at `matrix`.
Gemm gemm_of(const OperandRing& ring, std::int64_t index, std::int64_t first_row, std::int64_t rows,
             void* matrix) {
  const std::int64_t bytes = element_bytes(ring.layout.type);
  const int row_count = checked_int32(rows, "rows"), k = checked_int32(ring.layout.shape.k, "k"),
            n = checked_int32(ring.layout.shape.n, "n");
  void* const a = static_cast<std::byte*>(ring.a_at(index)) + first_row * ring.layout.shape.k * bytes;
  void* const b = static_cast<std::byte*>(ring.b_at(index)) + first_row * ring.layout.shape.n * bytes;
  if (ring.layout.shape.weight_gradient)
    return {CUBLAS_OP_N, CUBLAS_OP_T, n, k, row_count, b, a, n, k, matrix, n};
  const bool k_by_n = ring.order == WeightOrder::k_by_n;
  return {
      k_by_n ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, n, row_count, k, matrix, a, k_by_n ? n : k, k, b, n};
}

void launch(cublasHandle_t handle, const Gemm& gemm, ElementType type) {
  const cudaDataType_t data = data_type(type);
  DROPLESS_CUBLAS_CHECK(cublasGemmEx(handle, gemm.first_operation, gemm.second_operation, gemm.m, gemm.n,
                                     gemm.k, &one, gemm.first, data, gemm.first_pitch, gemm.second, data,
                                     gemm.second_pitch, &zero, gemm.result, data, gemm.result_pitch,
                                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

/// Calls visit(expert, first row, rows, matrix) for every expert with rows.
template <class Visit>
void for_each_nonempty_expert(const OperandRing& ring, std::int64_t index,
                              const std::vector<std::int64_t>& rows_per_expert, Visit&& visit) {
  std::int64_t first_row = 0;
  for (std::size_t expert = 0; expert < rows_per_expert.size(); ++expert) {
    const std::int64_t rows = rows_per_expert[expert];
    if (rows > 0)
      visit(expert, first_row, rows,
            ring.weights_at(index) + static_cast<std::int64_t>(expert) * ring.layout.matrix_bytes);
    first_row += rows;
  }
}

/// The part of a weight gradient that cuBLAS leaves out: experts without rows get zeros.
void zero_empty_experts(const OperandRing& ring, std::int64_t index,
                        const std::vector<std::int64_t>& rows_per_expert, Stream stream) {
  if (!ring.layout.shape.weight_gradient) return;
  const std::int64_t bytes = ring.layout.matrix_bytes;
  for (std::size_t expert = 0; expert < rows_per_expert.size(); ++expert)
    if (rows_per_expert[expert] == 0)
      DROPLESS_CUDA_CHECK(cudaMemsetAsync(ring.weights_at(index) + static_cast<std::int64_t>(expert) * bytes,
                                          0, static_cast<std::size_t>(bytes), stream));
}

/// The arguments of one grouped call: host arrays of one entry a non-empty expert, and device arrays of
/// pointers, one block of three for each row slot.
struct GroupedArguments {
  std::vector<cublasOperation_t> first_operations, second_operations;
  std::vector<int> m, n, k, first_pitches, second_pitches, result_pitches, group_sizes;
  std::vector<float> ones, zeros;
  DeviceMemory pointers;

  std::size_t groups() const { return m.size(); }
};

std::shared_ptr<const GroupedArguments> grouped_arguments(const OperandRing& ring,
                                                          const std::vector<std::int64_t>& rows_per_expert) {
  const auto groups = static_cast<std::size_t>(ring.layout.shape.nonempty_experts),
             slots = static_cast<std::size_t>(ring.layout.row_slots);
  auto arguments = std::make_shared<GroupedArguments>(GroupedArguments{
      {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, DeviceMemory(3 * groups * slots * sizeof(void*))});
  std::vector<const void*> pointers(3 * groups * slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    std::size_t group = 0;
    for_each_nonempty_expert(ring, static_cast<std::int64_t>(slot), rows_per_expert,
                             [&](std::size_t, std::int64_t first_row, std::int64_t rows, void* matrix) {
                               const Gemm gemm =
                                   gemm_of(ring, static_cast<std::int64_t>(slot), first_row, rows, matrix);
                               const void** const block = pointers.data() + 3 * groups * slot + group++;
                               block[0] = gemm.first;
                               block[groups] = gemm.second;
                               block[2 * groups] = gemm.result;
                               if (slot != 0) return;
                               arguments->first_operations.push_back(gemm.first_operation);
                               arguments->second_operations.push_back(gemm.second_operation);
                               arguments->m.push_back(gemm.m);
                               arguments->n.push_back(gemm.n);
                               arguments->k.push_back(gemm.k);
                               arguments->first_pitches.push_back(gemm.first_pitch);
                               arguments->second_pitches.push_back(gemm.second_pitch);
                               arguments->result_pitches.push_back(gemm.result_pitch);
                             });
  }
  arguments->group_sizes.assign(groups, 1);
  arguments->ones.assign(groups, one);
  arguments->zeros.assign(groups, zero);
  DROPLESS_CUDA_CHECK(cudaMemcpy(arguments->pointers.data(), pointers.data(), pointers.size() * sizeof(void*),
                                 cudaMemcpyHostToDevice));
  DROPLESS_CUDA_CHECK(cudaDeviceSynchronize());  // other streams do not wait for the default stream
  return arguments;
}

}  // namespace

/// One handle for each stream, since calls that may overlap must not share a handle's workspace.
struct CublasPeers::Handles {
  Stream stream;
  cublasHandle_t main = nullptr;
  std::array<cublasHandle_t, side_streams> side{};
  std::array<cudaStream_t, side_streams> side_stream{};
  std::array<cudaEvent_t, side_streams> side_done{};
  cudaEvent_t fork = nullptr;

  explicit Handles(Stream main_stream) : stream(main_stream) {
    DROPLESS_CUBLAS_CHECK(cublasCreate(&main));
    DROPLESS_CUBLAS_CHECK(cublasSetStream(main, stream));
    DROPLESS_CUDA_CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    for (std::size_t i = 0; i < side_streams; ++i) {
      DROPLESS_CUDA_CHECK(cudaStreamCreateWithFlags(&side_stream[i], cudaStreamNonBlocking));
      DROPLESS_CUDA_CHECK(cudaEventCreateWithFlags(&side_done[i], cudaEventDisableTiming));
      DROPLESS_CUBLAS_CHECK(cublasCreate(&side[i]));
      DROPLESS_CUBLAS_CHECK(cublasSetStream(side[i], side_stream[i]));
    }
  }
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;
  ~Handles() {
    for (std::size_t i = 0; i < side_streams; ++i) {
      cublasDestroy(side[i]);
      cudaEventDestroy(side_done[i]);
      cudaStreamDestroy(side_stream[i]);
    }
    cudaEventDestroy(fork);
    cublasDestroy(main);
  }
};

CublasPeers::CublasPeers(Stream stream) : handles_(std::make_unique<Handles>(stream)) {}
CublasPeers::~CublasPeers() = default;

Call CublasPeers::dense(const OperandRing& ring) const {
  return [&ring, handles = handles_.get()](std::int64_t index) {
    launch(handles->main, gemm_of(ring, index, 0, ring.layout.shape.rows, ring.dense_matrix_at(index)),
           ring.layout.type);
  };
}

Call CublasPeers::loop(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const {
  return [&ring, handles = handles_.get(), rows_per_expert = std::move(rows_per_expert)](std::int64_t index) {
    zero_empty_experts(ring, index, rows_per_expert, handles->stream);
    for_each_nonempty_expert(ring, index, rows_per_expert,
                             [&](std::size_t, std::int64_t first_row, std::int64_t rows, void* matrix) {
                               launch(handles->main, gemm_of(ring, index, first_row, rows, matrix),
                                      ring.layout.type);
                             });
  };
}

Call CublasPeers::streams(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const {
  return [&ring, handles = handles_.get(), rows_per_expert = std::move(rows_per_expert)](std::int64_t index) {
    DROPLESS_CUDA_CHECK(cudaEventRecord(handles->fork, handles->stream));
    for (const cudaStream_t side : handles->side_stream)
      DROPLESS_CUDA_CHECK(cudaStreamWaitEvent(side, handles->fork, 0));
    zero_empty_experts(ring, index, rows_per_expert, handles->stream);
    for_each_nonempty_expert(
        ring, index, rows_per_expert,
        [&](std::size_t expert, std::int64_t first_row, std::int64_t rows, void* matrix) {
          launch(handles->side[expert % side_streams], gemm_of(ring, index, first_row, rows, matrix),
                 ring.layout.type);
        });
    for (std::size_t i = 0; i < side_streams; ++i) {
      DROPLESS_CUDA_CHECK(cudaEventRecord(handles->side_done[i], handles->side_stream[i]));
      DROPLESS_CUDA_CHECK(cudaStreamWaitEvent(handles->stream, handles->side_done[i], 0));
    }
  };
}

Call CublasPeers::grouped(const OperandRing& ring, std::vector<std::int64_t> rows_per_expert) const {
  return [&ring, handles = handles_.get(), rows_per_expert,
          arguments = grouped_arguments(ring, rows_per_expert)](std::int64_t index) {
    const std::size_t groups = arguments->groups();
    const auto slot = static_cast<std::size_t>(index % ring.layout.row_slots);
    void* const* const pointers = static_cast<void* const*>(arguments->pointers.data()) + 3 * groups * slot;
    const auto* const const_pointers = const_cast<const void* const*>(pointers);
    const cudaDataType_t data = data_type(ring.layout.type);
    zero_empty_experts(ring, index, rows_per_expert, handles->stream);
    DROPLESS_CUBLAS_CHECK(cublasGemmGroupedBatchedEx(
        handles->main, arguments->first_operations.data(), arguments->second_operations.data(),
        arguments->m.data(), arguments->n.data(), arguments->k.data(), arguments->ones.data(), const_pointers,
        data, arguments->first_pitches.data(), const_pointers + groups, data,
        arguments->second_pitches.data(), arguments->zeros.data(), pointers + 2 * groups, data,
        arguments->result_pitches.data(), checked_int32(static_cast<std::int64_t>(groups), "groups"),
        arguments->group_sizes.data(), CUBLAS_COMPUTE_32F));
  };
}

int CublasPeers::version() const {
  int value = 0;
  DROPLESS_CUBLAS_CHECK(cublasGetVersion(handles_->main, &value));
  return value;
}

}  // namespace dropless::benchmark
