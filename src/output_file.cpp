// Temporary file, flush, rename.
#include "output_file.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "dropless/error.hpp"

namespace dropless {
namespace {

/// The name of the temporary that exists now, or null.
std::atomic<const char*> unfinished = nullptr;

}  // namespace

OutputFile::OutputFile(const std::string& path) : path_(path), target_(path) {
  std::error_code ignored;
  const std::filesystem::file_status status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_regular_file(status)) target_ = std::filesystem::canonical(path, ignored).string();
  if (std::filesystem::is_regular_file(status) || !std::filesystem::exists(status))
    temporary_ = target_ + ".tmp" + std::to_string(getpid());
  file_ = std::fopen((temporary_.empty() ? target_ : temporary_).c_str(), "wb");
  if (file_ == nullptr) fail("cannot be written");
  if (!temporary_.empty()) unfinished = temporary_.c_str();
}

OutputFile::~OutputFile() {
  if (file_ != nullptr) std::fclose(file_);
  if (temporary_.empty()) return;
  unfinished = nullptr;
  std::remove(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail("could not be written in full");
}

void OutputFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("could not be written in full");
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be replaced");
  unfinished = nullptr;
  temporary_.clear();
}

void OutputFile::fail(const char* what) const {
  throw FileError(path_, "", std::string(what) + ": " + std::strerror(errno));
}

void write_output_file(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

void remove_unfinished_output() {
  if (const char* temporary = unfinished.load()) ::unlink(temporary);
}

}  // namespace dropless
