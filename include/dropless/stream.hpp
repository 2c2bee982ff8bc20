// A CUDA stream without a CUDA header: cudaStream_t is a pointer to this incomplete type.
#pragma once

struct CUstream_st;

namespace dropless {

/// The same type as cudaStream_t; nullptr is the legacy default stream.
using Stream = CUstream_st*;

}  // namespace dropless
