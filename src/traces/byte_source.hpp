// Random access to the bytes of a trace: a file, a member of an archive, or numbers parsed out of text.
//
// Everything is read with pread into bounded buffers, not mapped: resident memory stays small whatever the
// file's size, and a file that shrinks while it is read gives an error instead of a signal.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dropless::traces {

/// Bytes at known offsets. read() may be called by several threads at once.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::int64_t size() const = 0;
  /// Fills `bytes` with exactly `count` bytes from `offset`; the caller stays within size().
  virtual void read(std::int64_t offset, void* bytes, std::int64_t count) const = 0;
};

/// A regular file. Directories, missing files and files without permission throw FileError.
class FileBytes : public ByteSource {
 public:
  explicit FileBytes(std::string path);
  ~FileBytes() override;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, void* bytes, std::int64_t count) const override;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// A piece of another source.
class BytesWithin : public ByteSource {
 public:
  /// The piece must lie within `whole`.
  BytesWithin(std::shared_ptr<const ByteSource> whole, std::int64_t offset, std::int64_t size)
      : whole_(std::move(whole)), offset_(offset), size_(size) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, void* bytes, std::int64_t count) const override {
    whole_->read(offset_ + offset, bytes, count);
  }

 private:
  std::shared_ptr<const ByteSource> whole_;
  std::int64_t offset_, size_;
};

/// Bytes that are produced in order and read later: held in memory up to 32 MiB, then in an unnamed temporary
/// file, so that memory does not grow with what is parsed or inflated. Append first, then read.
class SpilledBytes : public ByteSource {
 public:
  /// `path` is the file that the bytes come from; a full disk is reported against it.
  explicit SpilledBytes(std::string path) : path_(std::move(path)) {}
  ~SpilledBytes() override;
  SpilledBytes(const SpilledBytes&) = delete;
  SpilledBytes& operator=(const SpilledBytes&) = delete;

  void append(const void* bytes, std::size_t count);
  std::int64_t size() const override { return spilled_ + static_cast<std::int64_t>(held_.size()); }
  void read(std::int64_t offset, void* bytes, std::int64_t count) const override;

 private:
  void spill();

  std::string path_;
  std::vector<std::byte> held_;  // the bytes from offset spilled_ on
  std::int64_t spilled_ = 0;
  int descriptor_ = -1;
};

}  // namespace dropless::traces
