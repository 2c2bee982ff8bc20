// A libFuzzer target for each trace reader: FUZZ_FORMAT names the format that the input is forced to be. An
// input may be refused with an Error; anything else that goes wrong is a finding. Inputs that once went
// wrong, and small good files to start from, are in corpus/ and are replayed by the host tests.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "dropless/trace.hpp"

namespace {

class Ignore : public dropless::BatchSink {
 public:
  void batch(int, const dropless::Batch&) override {}
  std::int64_t most_token_batches() const override { return 512; }
};

void open_and_read(const std::string& path, const dropless::TraceOptions& options) {
  try {
    Ignore sink;
    const auto trace = dropless::open_trace(path, options);
    trace->read(sink, 1);
  } catch (const dropless::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const int file = ::memfd_create("input", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, bytes, size, 0) != static_cast<ssize_t>(size)) return 0;
  dropless::TraceOptions options;
  options.format = FUZZ_FORMAT;
  open_and_read(path, options);
  options.experts = 8;
  options.batch_tokens = 3;
  options.drop_warmup = true;
  open_and_read(path, options);
  options.batch_tokens = 1;
  open_and_read(path, options);
  options = {};
  open_and_read(path, options);  // the format detected
  return 0;
}
