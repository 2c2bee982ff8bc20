// Output files: nothing under the name before the end, nothing beside it afterwards, and pipes written as
// they are.
#include "output_file.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "catch.hpp"
#include "dropless/error.hpp"
#include "temporary_folder.hpp"

using namespace dropless;

namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::ptrdiff_t files_in(const std::string& folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

}  // namespace

TEST_CASE("output file: appears whole, or not at all") {
  const TemporaryFolder folder;
  const std::string path = folder.path("report.txt");
  {
    OutputFile file(path);
    file.write("half");
    CHECK_FALSE(std::filesystem::exists(path));
    CHECK(files_in(folder.path("")) == 1);
  }
  CHECK(files_in(folder.path("")) == 0);
  write_output_file(path, "first");
  {
    OutputFile file(path);
    file.write("second");
    CHECK(content(path) == "first");
    file.finish();
    CHECK(content(path) == "second");
  }
  CHECK(content(path) == "second");
  CHECK(files_in(folder.path("")) == 1);
}

TEST_CASE("output file: an interrupt removes what is not finished") {
  const TemporaryFolder folder;
  OutputFile file(folder.path("report.txt"));
  file.write("half");
  remove_unfinished_output();
  CHECK(files_in(folder.path("")) == 0);
  CHECK_THROWS_WITH(file.finish(), Catch::Contains("report.txt") && Catch::Contains("cannot be replaced"));
}

TEST_CASE("output file: a link stays one, a pipe is written directly") {
  const TemporaryFolder folder;
  const std::string link = folder.path("link"), target = folder.write("target", "old");
  std::filesystem::create_symlink(target, link);
  write_output_file(link, "new");
  CHECK(std::filesystem::is_symlink(link));
  CHECK(content(target) == "new");

  const std::string pipe = folder.path("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::string read;
  std::thread reader([&] { read = content(pipe); });
  write_output_file(pipe, "through the pipe");
  reader.join();
  CHECK(read == "through the pipe");
  CHECK(std::filesystem::is_fifo(pipe));
}

TEST_CASE("output file: a folder that is not there is named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(write_output_file(folder.path("no/report.txt"), ""),
                    Catch::Contains("no/report.txt") && Catch::Contains("cannot be written"));
}
