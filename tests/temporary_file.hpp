// A file of the test's own, gone with the object.
#pragma once
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include <unistd.h>

class TemporaryFile {
 public:
  TemporaryFile(const std::string& content, const std::string& extension) {
    static std::atomic<int> number{0};
    path_ = std::filesystem::temp_directory_path() /
            ("dropless_test_" + std::to_string(getpid()) + "_" + std::to_string(number++) + extension);
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};
