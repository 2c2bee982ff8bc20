/* The C interface of dropless, for other languages: the shared library dropless_c. Every function does what
 * the C++ function of the same name does (topology.hpp, expert_rows.hpp, expert_products.hpp, expert_mlp.hpp
 * say what, with shapes and units), and every structure has the fields of its C++ counterpart, but
 * for the maps of separate tensors, which therefore run the portable path here.
 *
 * Functions return DROPLESS_OK or say what went wrong; dropless_last_error() then holds the sentence. No
 * exception leaves the library. Device memory is the caller's throughout; work goes to the given stream only,
 * and nothing waits for the host but dropless_check_topology.
 *
 * `options` may be null: the default ones, in which all is 0. */
#ifndef DROPLESS_DROPLESS_C_H
#define DROPLESS_DROPLESS_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define DROPLESS_C_API
#else
#define DROPLESS_C_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A cudaStream_t; a null pointer is the legacy default stream. */
typedef struct CUstream_st* dropless_stream;

typedef enum dropless_result {
  DROPLESS_OK = 0,
  DROPLESS_INVALID_ARGUMENT = 1, /* refused before anything was launched, or ids out of range when checked */
  DROPLESS_CUDA_ERROR = 2,       /* a CUDA call failed */
  DROPLESS_INTERNAL_ERROR = 3    /* anything else, such as host memory that ran out */
} dropless_result;

enum { DROPLESS_BF16 = 0, DROPLESS_FP16 = 1, DROPLESS_FP32 = 2 };          /* element_type */
enum { DROPLESS_K_BY_N = 0, DROPLESS_N_BY_K = 1 };                         /* weight order */
enum { DROPLESS_AUTOMATIC = 0, DROPLESS_PORTABLE = 1, DROPLESS_SM90 = 2 }; /* kernel path */
enum { DROPLESS_LINEAR2 = 0, DROPLESS_GLU = 1 };                           /* kind of expert MLP */
enum { DROPLESS_WEIGHT_ON_OUTPUT = 0, DROPLESS_WEIGHT_ON_INPUT = 1, DROPLESS_NO_WEIGHT = 2 };
enum {
  DROPLESS_SILU = 0,
  DROPLESS_GELU_ERF = 1,
  DROPLESS_GELU_TANH = 2,
  DROPLESS_RELU = 3,
  DROPLESS_RELU_SQUARED = 4
}; /* activation function */

/* "1.2.3" */
DROPLESS_C_API const char* dropless_version(void);

/* The sentence of the calling thread's last failure; empty before the first. Valid until the thread's next
 * call into the library. */
DROPLESS_C_API const char* dropless_last_error(void);

/* How an expert's rows are cut into tiles; both 0 takes the library's default. */
typedef struct dropless_row_tile_rule {
  int32_t tile_rows;
  int32_t granule;
} dropless_row_tile_rule;

typedef struct dropless_topology_bounds {
  int64_t tokens;
  int64_t top_k;
  int64_t experts;
  dropless_row_tile_rule tile_rule;
} dropless_topology_bounds;

typedef struct dropless_router_ids {
  const void* data;       /* device [tokens, top_k] */
  int32_t is_int64;       /* 0: int32 ids */
  int64_t global_experts; /* 0: the same as experts */
  int64_t first_expert;
  const int32_t* expert_map; /* device [global_experts], or null */
} dropless_router_ids;

typedef struct dropless_expert_rows {
  int64_t experts;
  int64_t rows_bound;
  const int32_t* row_begin;  /* device [experts] */
  const int32_t* row_count;  /* device [experts] */
  const void* tiles;         /* device [tile_bound], 16 bytes each */
  const int32_t* tile_count; /* device [1] */
  uint32_t* tile_counter;    /* device [1], zero; or null */
  int64_t tile_bound;
  dropless_row_tile_rule tile_rule; /* not 0 */
} dropless_expert_rows;

typedef struct dropless_topology_status {
  int32_t out_of_range;
  int32_t unrouted;
  int32_t non_local;
  int32_t useful_rows;
} dropless_topology_status;

typedef struct dropless_topology {
  dropless_topology_bounds bounds;
  int64_t assignments;
  const int32_t* rows_per_expert;         /* device [experts] */
  const int32_t* row_offsets;             /* device [experts + 1] */
  const int32_t* row_to_assignment;       /* device [assignments] */
  const int32_t* assignment_to_row;       /* device [assignments] */
  const dropless_topology_status* status; /* device [1] */
  dropless_expert_rows rows;              /* the packed rows as the products take them */
} dropless_topology;

DROPLESS_C_API dropless_result dropless_topology_bytes(const dropless_topology_bounds* bounds,
                                                       size_t* metadata_bytes, size_t* workspace_bytes);

DROPLESS_C_API dropless_result dropless_build_topology(const dropless_router_ids* ids,
                                                       const dropless_topology_bounds* bounds, void* metadata,
                                                       size_t metadata_bytes, void* workspace,
                                                       size_t workspace_bytes, dropless_stream stream,
                                                       dropless_topology* topology);

/* Waits for the stream; DROPLESS_INVALID_ARGUMENT where ids were out of range. `status` is host memory. */
DROPLESS_C_API dropless_result dropless_check_topology(const dropless_topology* topology,
                                                       dropless_stream stream,
                                                       dropless_topology_status* status);

DROPLESS_C_API dropless_result dropless_expert_rows_bytes(int64_t experts, int64_t rows_bound,
                                                          dropless_row_tile_rule tile_rule, size_t* bytes);

DROPLESS_C_API dropless_result dropless_prepare_expert_rows(const int32_t* row_begin,
                                                            const int32_t* row_count, int64_t experts,
                                                            int64_t rows_bound, void* memory,
                                                            size_t memory_bytes, dropless_stream stream,
                                                            dropless_row_tile_rule tile_rule,
                                                            dropless_expert_rows* rows);

typedef struct dropless_rows_view {
  void* data; /* never written where a function takes the view as const input */
  int64_t leading_dimension;
  int32_t element_type;
} dropless_rows_view;

typedef struct dropless_weight_tensor {
  const void* data;
  int64_t expert_stride;
  const void* const* matrices; /* device [experts] of multiples of 16 bytes, or null */
} dropless_weight_tensor;

typedef struct dropless_expert_weights {
  int32_t element_type;
  int32_t order;
  int64_t experts;
  int64_t k;
  int64_t n;
  int64_t leading_dimension;
  dropless_weight_tensor first;
  dropless_weight_tensor second;
  const int32_t* d_ff;       /* device [experts], or null: every expert has the full width */
  const int32_t* d_ff_begin; /* device [experts], or null */
} dropless_expert_weights;

typedef struct dropless_expert_gradients {
  int32_t element_type;
  int64_t experts;
  int64_t m;
  int64_t n;
  int64_t leading_dimension;
  int64_t expert_stride;
  void* data;
  void* const* matrices; /* device [experts], or null */
} dropless_expert_gradients;

/* All 0 is the default. exclusive_rows: 1 where no other product on these rows runs at the same time. */
typedef struct dropless_product_options {
  int32_t accumulate;
  int32_t sm_limit;
  int32_t path;
  int32_t exclusive_rows;
} dropless_product_options;

/* Products ask for the current GPU first: where there is none, they return DROPLESS_CUDA_ERROR whatever else
 * is wrong with their arguments, but for nulls and numbers that name nothing. */
DROPLESS_C_API dropless_result dropless_sdd(const dropless_expert_rows* rows, const dropless_rows_view* x,
                                            const dropless_expert_weights* w1, const dropless_rows_view* h,
                                            const dropless_product_options* options, dropless_stream stream);

DROPLESS_C_API dropless_result dropless_dsd(const dropless_expert_rows* rows, const dropless_rows_view* h,
                                            const dropless_expert_weights* w2, const dropless_rows_view* y,
                                            const dropless_product_options* options, dropless_stream stream);

DROPLESS_C_API dropless_result dropless_weight_gradient(
    const dropless_expert_rows* rows, const dropless_rows_view* a, const dropless_rows_view* b,
    const dropless_expert_gradients* dw, const dropless_product_options* options, dropless_stream stream);

/* alpha and limit: 0 takes the default, 1 and no limit. */
typedef struct dropless_activation {
  int32_t function;
  float alpha;
  float limit;
  float up_offset;
} dropless_activation;

typedef struct dropless_expert_mlp {
  int32_t kind;
  dropless_activation activation;
  dropless_expert_weights up;
  dropless_expert_weights down;
  const void* up_bias;   /* device [experts, up.n], or null */
  const void* down_bias; /* device [experts, down.n], or null */
} dropless_expert_mlp;

/* All 0 is the default. output_scale: 0 takes the default, 1. */
typedef struct dropless_expert_mlp_options {
  int32_t weight_place;
  float output_scale;
  int32_t accumulate;
  int32_t sm_limit;
  int32_t path;
  int32_t composed;
} dropless_expert_mlp_options;

typedef struct dropless_expert_mlp_batch {
  dropless_topology_bounds bounds;
  dropless_router_ids ids;
  const float* routing_weights; /* device [tokens, top_k]; null exactly where the weights have no place */
  dropless_rows_view x;
} dropless_expert_mlp_batch;

typedef struct dropless_device_memory {
  void* data;
  size_t bytes;
} dropless_device_memory;

/* Null data (and matrices) leaves that gradient out. */
typedef struct dropless_expert_mlp_gradients {
  dropless_rows_view x;
  dropless_expert_gradients up;
  dropless_expert_gradients up_second;
  dropless_expert_gradients down;
  float* up_bias;
  float* down_bias;
  float* routing_weights;
} dropless_expert_mlp_gradients;

/* What forward saves for backward, and the workspace of forward that saves nothing, of forward that saves,
 * and of backward. */
typedef struct dropless_expert_mlp_memory {
  size_t saved;
  size_t inference_workspace;
  size_t forward_workspace;
  size_t backward_workspace;
} dropless_expert_mlp_memory;

DROPLESS_C_API dropless_result dropless_expert_mlp_bytes(const dropless_expert_mlp* mlp,
                                                         const dropless_topology_bounds* bounds,
                                                         const dropless_expert_mlp_options* options,
                                                         dropless_expert_mlp_memory* bytes);

/* saved with null data: inference. topology: what was built, in host memory; may be null. */
DROPLESS_C_API dropless_result dropless_expert_mlp_forward(
    const dropless_expert_mlp* mlp, const dropless_expert_mlp_batch* batch, const dropless_rows_view* out,
    const dropless_expert_mlp_options* options, dropless_device_memory saved,
    dropless_device_memory workspace, dropless_stream stream, dropless_topology* topology);

DROPLESS_C_API dropless_result dropless_expert_mlp_backward(
    const dropless_expert_mlp* mlp, const dropless_expert_mlp_batch* batch,
    const dropless_rows_view* out_gradient, const dropless_expert_mlp_gradients* gradients,
    const dropless_expert_mlp_options* options, dropless_device_memory saved,
    dropless_device_memory workspace, dropless_stream stream);

#ifdef __cplusplus
}
#endif

#endif
