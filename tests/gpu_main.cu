// Entry point of the GPU tests. Without a usable GPU it lists its tests as usual but runs none of them and
// exits with 77, which ctest reports as skipped.
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif
#include <cuda_runtime_api.h>

#include <cstdio>
#include <string>

namespace {
constexpr int skip_exit_code = 77;

bool only_lists(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--list", 0) == 0 || argument == "-l" || argument == "-h") return true;
  }
  return false;
}
}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  const bool has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  if (!has_device && !only_lists(argc, argv)) {
    std::puts("no CUDA device: GPU tests skipped");
    return skip_exit_code;
  }
  return Catch::Session().run(argc, argv);
}
