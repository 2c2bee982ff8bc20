// Writing a result so that nobody ever reads half of it: to a temporary name beside the file, then renamed.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

namespace dropless {

/// A file that appears under its name once finish() has returned; one is open at a time. What is no regular
/// file (a pipe, /dev/stdout) is written directly. Every call throws FileError where it fails; no temporary
/// is left behind.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::string_view text);
  void finish();

 private:
  [[noreturn]] void fail(const char* what) const;

  std::string path_, target_, temporary_;  // temporary_ is empty where target_ is written directly
  std::FILE* file_ = nullptr;
};

/// Writes `text` as the file `path`, as OutputFile does.
void write_output_file(const std::string& path, const std::string& text);

/// Removes the temporary of the file that is being written, if any: for a signal handler that ends the
/// program, and safe in one.
void remove_unfinished_output();

}  // namespace dropless
