// The sentences and parts of every error.
#include "catch.hpp"
#include "dropless/error.hpp"

using namespace dropless;

TEST_CASE("errors: an argument, its value and what was expected") {
  const Error error("block", "48", "16, 32, 64 or 128");
  CHECK(std::string(error.what()) == "block is 48; expected 16, 32, 64 or 128");
  CHECK(error.argument() == "block");
  CHECK(error.value() == "48");
  CHECK(error.expectation() == "16, 32, 64 or 128");
}

TEST_CASE("errors: a file, the place in it and the reason") {
  const FileError error("trace.csv", "line 3", "has 2 fields instead of 3");
  CHECK(std::string(error.what()) == "trace.csv: line 3: has 2 fields instead of 3");
  CHECK(error.path() == "trace.csv");
  CHECK(error.place() == "line 3");
  CHECK(error.reason() == "has 2 fields instead of 3");
  CHECK(std::string(FileError("trace.csv", "", "is empty").what()) == "trace.csv: is empty");
}

TEST_CASE("errors: a CUDA call quotes itself") {
  const CudaError error("cudaMalloc(&p, n)", "cudaErrorMemoryAllocation");
  CHECK(std::string(error.what()) == "cudaMalloc(&p, n) failed with cudaErrorMemoryAllocation");
  CHECK(error.argument() == "cudaMalloc(&p, n)");
  CHECK(error.value() == "cudaErrorMemoryAllocation");
}

TEST_CASE("errors: every one is caught as dropless::Error and as std::exception") {
  const auto thrown = [](const auto& error) { throw error; };
  CHECK_THROWS_AS(thrown(FileError("a", "b", "c")), Error);
  CHECK_THROWS_AS(thrown(CudaError("a", "b")), Error);
  CHECK_THROWS_AS(thrown(Error("a", "b", "c")), std::exception);
}
