// Writing a result so that nobody ever reads half of it: to a temporary name beside the file, then renamed.
#pragma once
#include <cstdio>
#include <string>
#include <string_view>

/// A file that appears under its name once finish() has returned. Every call throws dropless::FileError where
/// it fails; no temporary is left behind.
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

  std::string path_, temporary_;
  std::FILE* file_ = nullptr;
  bool finished_ = false;
};

/// Writes `text` as the file `path`, as OutputFile does.
void write_output_file(const std::string& path, const std::string& text);
