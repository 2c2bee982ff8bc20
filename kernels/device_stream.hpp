// Streams and captured graphs that tests and benchmarks own. The library itself makes neither.
#pragma once
#include <cuda_runtime_api.h>

#include "cuda_check.hpp"

namespace dropless {

class DeviceStream {
 public:
  DeviceStream() { DROPLESS_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~DeviceStream() { cudaStreamDestroy(stream_); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  operator cudaStream_t() const { return stream_; }
  void synchronize() const { DROPLESS_CUDA_CHECK(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// What `enqueue()` puts on `stream`, captured; a synchronisation or an allocation inside makes it throw. The
/// graph is the caller's to destroy.
template <class Enqueue>
cudaGraph_t capture(cudaStream_t stream, Enqueue enqueue) {
  DROPLESS_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    enqueue();
  } catch (...) {  // the stream must leave the capture, with its error cleared, to be of use again
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  DROPLESS_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  return graph;
}

/// A capture to replay.
class CapturedGraph {
 public:
  template <class Enqueue>
  CapturedGraph(cudaStream_t stream, Enqueue enqueue) : stream_(stream) {
    const cudaGraph_t graph = capture(stream, enqueue);
    const cudaError_t counted = cudaGraphGetNodes(graph, nullptr, &nodes_);
    const cudaError_t instantiated = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    DROPLESS_CUDA_CHECK(counted);
    DROPLESS_CUDA_CHECK(instantiated);
  }
  ~CapturedGraph() { cudaGraphExecDestroy(executable_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  std::size_t nodes() const { return nodes_; }
  void replay() const { DROPLESS_CUDA_CHECK(cudaGraphLaunch(executable_, stream_)); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
  std::size_t nodes_ = 0;
};

}  // namespace dropless
