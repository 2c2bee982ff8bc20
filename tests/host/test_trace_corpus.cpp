// Replays the fuzzers' corpus (tests/fuzz/corpus): good seeds and inputs that once went wrong. None may do
// more than be refused.
#include <filesystem>

#include "catch.hpp"
#include "trace_files.hpp"

using namespace dropless;

namespace {

/// Reads the file; whether it was read rather than refused.
bool is_read(const std::string& path, const TraceOptions& options) {
  try {
    keep_trace(path, options);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TEST_CASE("the fuzzers' corpus is read or refused", "[trace][corpus]") {
  int files = 0, read = 0;
  for (const auto& folder : std::filesystem::directory_iterator(DROPLESS_FUZZ_CORPUS))
    for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
      CAPTURE(file.path().string());
      TraceOptions options;
      options.format = folder.path().filename().string();
      ++files;
      read += is_read(file.path().string(), options);
      options.experts = 8;
      options.batch_tokens = 3;
      options.drop_warmup = true;
      is_read(file.path().string(), options);
      is_read(file.path().string(), {});
    }
  CHECK(files >= 25);
  CHECK(read >= 21);
}
