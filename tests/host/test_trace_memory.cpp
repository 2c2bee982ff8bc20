// Memory while a trace is read: bounded, whatever the file's size. The file is sparse, so it takes no disk.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include <filesystem>

#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;

namespace {

class Ignore : public BatchSink {
 public:
  void batch(int, const Batch&) override {}
};

/// Peak resident memory of another process that reads the trace, in bytes; -1 where it failed.
std::int64_t peak_bytes(const std::string& path, const TraceOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) {
    Ignore sink;
    open_trace(path, options)->read(sink, 2);
    ::_exit(0);
  }
  int status = 0;
  rusage usage{};
  ::wait4(child, &status, 0, &usage);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::int64_t{usage.ru_maxrss} * 1024 : -1;
}

}  // namespace

TEST_CASE("reading a .npy takes no more memory for a larger file, in any axis order", "[trace][memory]") {
  const TemporaryFolder folder;
  TraceOptions options;
  options.experts = 64;
  for (const std::vector<Axis>& axes :
       {std::vector<Axis>{Axis::layer, Axis::sequence, Axis::position, Axis::slot},
        std::vector<Axis>{Axis::sequence, Axis::position, Axis::layer, Axis::slot},
        std::vector<Axis>{Axis::position, Axis::sequence, Axis::layer, Axis::slot}}) {
    options.axes = axes;
    std::vector<std::int64_t> peaks;
    for (const std::int64_t outermost : {8, 1024}) {  // 4 MiB and 512 MiB
      const std::string shape = fmt::format("({}, 2048, 256, 1)", outermost);
      const std::string path = folder.write("sparse.npy", npy_bytes("|u1", shape, ""));
      std::filesystem::resize_file(
          path, std::filesystem::file_size(path) + static_cast<std::uintmax_t>(outermost) * 2048 * 256);
      peaks.push_back(peak_bytes(path, options));
      REQUIRE(peaks.back() > 0);
    }
    CHECK(peaks[1] - peaks[0] < std::int64_t{100} << 20);
  }
}
