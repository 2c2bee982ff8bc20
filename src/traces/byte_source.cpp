// pread until all bytes are there, and the unnamed temporary file behind SpilledBytes.
#include "traces/byte_source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "dropless/error.hpp"

namespace dropless::traces {
namespace {

constexpr std::size_t spill_above = std::size_t{32} << 20;

std::string at_byte(std::int64_t offset) { return "byte " + std::to_string(offset); }

void read_fully(int descriptor, const std::string& path, std::int64_t offset, void* bytes,
                std::int64_t count) {
  auto* to = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = ::pread(descriptor, to, static_cast<std::size_t>(count), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileError(path, at_byte(offset), std::strerror(errno));
    if (got == 0) throw FileError(path, at_byte(offset), "the file ends here, but more bytes were promised");
    to += got;
    offset += got;
    count -= got;
  }
}

/// A file without a name in the temporary folder: it vanishes with its descriptor. -1, and errno says why.
int open_temporary() {
  std::error_code error;
  std::string name = (std::filesystem::temp_directory_path(error) / "dropless-XXXXXX").string();
  if (error) {
    errno = error.value();
    return -1;
  }
  const int descriptor = ::mkstemp(name.data());
  if (descriptor >= 0) ::unlink(name.c_str());
  return descriptor;
}

}  // namespace

FileBytes::FileBytes(std::string path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw FileError(path_, "", std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(descriptor_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw FileError(path_, "",
                    known && S_ISDIR(status.st_mode) ? "a folder, not a file" : "not a regular file");
  }
  size_ = status.st_size;
}

FileBytes::~FileBytes() { ::close(descriptor_); }

void FileBytes::read(std::int64_t offset, void* bytes, std::int64_t count) const {
  read_fully(descriptor_, path_, offset, bytes, count);
}

SpilledBytes::~SpilledBytes() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SpilledBytes::append(const void* bytes, std::size_t count) {
  const auto* from = static_cast<const std::byte*>(bytes);
  held_.insert(held_.end(), from, from + count);
  if (held_.size() >= spill_above) spill();
}

void SpilledBytes::spill() {
  if (descriptor_ < 0) descriptor_ = open_temporary();
  std::size_t done = 0;
  while (done < held_.size()) {
    const ssize_t put = descriptor_ < 0 ? -1 : ::write(descriptor_, held_.data() + done, held_.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0)
      throw FileError(path_, "",
                      std::string("its contents do not fit a temporary file: ") + std::strerror(errno));
    done += static_cast<std::size_t>(put);
  }
  spilled_ += static_cast<std::int64_t>(held_.size());
  held_.clear();
}

void SpilledBytes::read(std::int64_t offset, void* bytes, std::int64_t count) const {
  auto* to = static_cast<char*>(bytes);
  const std::int64_t on_disk = std::clamp<std::int64_t>(spilled_ - offset, 0, count);
  if (on_disk > 0) read_fully(descriptor_, path_, offset, to, on_disk);
  if (count > on_disk)
    std::memcpy(to + on_disk, held_.data() + (offset + on_disk - spilled_),
                static_cast<std::size_t>(count - on_disk));
}

}  // namespace dropless::traces
