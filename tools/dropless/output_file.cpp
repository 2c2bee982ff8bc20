// Temporary file, flush, rename.
#include "output_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "dropless/error.hpp"

OutputFile::OutputFile(const std::string& path)
    : path_(path), temporary_(path + ".tmp" + std::to_string(getpid())) {
  file_ = std::fopen(temporary_.c_str(), "wb");
  if (file_ == nullptr) fail("cannot be written");
}

OutputFile::~OutputFile() {
  if (finished_) return;
  if (file_ != nullptr) std::fclose(file_);
  std::remove(temporary_.c_str());
}

void OutputFile::write(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size()) fail("could not be written in full");
}

void OutputFile::finish() {
  if (std::fclose(std::exchange(file_, nullptr)) != 0) fail("could not be written in full");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be replaced");
  finished_ = true;
}

void OutputFile::fail(const char* what) const {
  throw dropless::FileError(path_, "", std::string(what) + ": " + std::strerror(errno));
}

void write_output_file(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}
