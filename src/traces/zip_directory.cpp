// Zip records read by hand (there are few) and members inflated by zlib, every size and offset distrusted.
#include "traces/zip_directory.hpp"

#include <zlib.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "dropless/error.hpp"
#include "traces/line_reader.hpp"

namespace dropless::traces {
namespace {

constexpr std::int64_t end_record_bytes = 22;
constexpr std::int64_t longest_directory = 64 << 20;
constexpr std::int64_t start_bytes = (1 << 20) + 64;
// Deflate expands at most 1032 times. Routing never comes near it; a large member that does is a zip bomb.
constexpr std::int64_t most_expansion = 1032;
constexpr std::int64_t bomb_expansion = 200;
constexpr std::int64_t bomb_bytes = std::int64_t{1} << 30;

std::uint64_t little_endian(const unsigned char* bytes, int count) {
  std::uint64_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

/// Numbers of a record that was read from the archive.
class Record {
 public:
  Record(const FileBytes& file, std::int64_t offset, std::int64_t size)
      : bytes_(static_cast<std::size_t>(size)) {
    if (offset < 0 || size > file.size() || offset > file.size() - size)
      throw FileError(file.path(), fmt::format("byte {}", offset), "the zip archive points outside the file");
    file.read(offset, bytes_.data(), size);
  }
  std::uint64_t number(std::int64_t at, int count) const { return little_endian(bytes_.data() + at, count); }
  const unsigned char* data() const { return bytes_.data(); }
  std::int64_t size() const { return static_cast<std::int64_t>(bytes_.size()); }
  bool starts_with(const char (&signature)[5]) const {
    return size() >= 4 && std::memcmp(data(), signature, 4) == 0;
  }

 private:
  std::vector<unsigned char> bytes_;
};

std::int64_t checked_offset(const FileBytes& file, std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(file.size()))
    throw FileError(file.path(), "zip directory",
                    fmt::format("an offset or size of {} is outside the file", value));
  return static_cast<std::int64_t>(value);
}

struct DirectoryPlace {
  std::int64_t offset = 0, size = 0;
};

/// The directory is named by a record at the file's end, which a comment of up to 64 KiB may follow.
DirectoryPlace find_directory(const FileBytes& file) {
  const std::int64_t tail_bytes = std::min<std::int64_t>(file.size(), end_record_bytes + 65535);
  const Record tail(file, file.size() - tail_bytes, tail_bytes);
  for (std::int64_t at = tail_bytes - end_record_bytes; at >= 0; --at) {
    if (std::memcmp(tail.data() + at, "PK\x05\x06", 4) != 0) continue;
    std::uint64_t size = tail.number(at + 12, 4), offset = tail.number(at + 16, 4);
    const std::int64_t locator_offset = file.size() - tail_bytes + at - 20;
    if ((size == 0xffffffff || offset == 0xffffffff || tail.number(at + 10, 2) == 0xffff) &&
        locator_offset >= 0) {
      const Record locator(file, locator_offset, 20);
      if (locator.starts_with("PK\x06\x07")) {
        const Record end(file, checked_offset(file, locator.number(8, 8)), 56);
        if (!end.starts_with("PK\x06\x06")) break;
        size = end.number(40, 8);
        offset = end.number(48, 8);
      }
    }
    return {checked_offset(file, offset), checked_offset(file, size)};
  }
  throw FileError(file.path(), "", "the zip archive has no directory at its end (was it cut off?)");
}

/// Sizes and offsets past 32 bits stand in an extra field, in this order, each only where it is needed.
void read_zip64(const unsigned char* extra, std::int64_t extra_bytes, std::array<std::uint64_t*, 3> values) {
  while (extra_bytes >= 4) {
    const auto id = little_endian(extra, 2);
    std::int64_t left = std::min(static_cast<std::int64_t>(little_endian(extra + 2, 2)), extra_bytes - 4);
    extra += 4;
    extra_bytes -= 4 + left;
    if (id == 1) {
      for (std::uint64_t* value : values) {
        if (*value != 0xffffffff || left < 8) continue;
        *value = little_endian(extra, 8);
        extra += 8;
        left -= 8;
      }
      return;
    }
    extra += left;
  }
}

/// A member's first bytes, as a source of its whole declared size.
class StartOfMember : public ByteSource {
 public:
  StartOfMember(std::vector<unsigned char> start, std::int64_t size, std::string path)
      : start_(std::move(start)), size_(size), path_(std::move(path)) {}
  std::int64_t size() const override { return size_; }
  void read(std::int64_t offset, void* bytes, std::int64_t count) const override {
    if (offset + count > static_cast<std::int64_t>(start_.size()))
      throw FileError(path_, "", "a member ends before its declared size");
    std::copy_n(start_.data() + offset, count, static_cast<unsigned char*>(bytes));
  }

 private:
  std::vector<unsigned char> start_;
  std::int64_t size_;
  std::string path_;
};

/// Inflates a member's bytes in order.
class Inflater {
 public:
  Inflater(const FileBytes& file, const ZipMember& member, std::int64_t offset)
      : file_(file), member_(member), at_(offset), end_(offset + member.stored_bytes) {
    if (inflateInit2(&stream_, -MAX_WBITS) != Z_OK) refuse("zlib has no memory");
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  /// Up to `count` bytes; fewer at the end of the member only.
  std::size_t next(unsigned char* to, std::size_t count) {
    stream_.next_out = to;
    stream_.avail_out = static_cast<unsigned>(count);
    while (stream_.avail_out > 0 && !ended_) {
      if (stream_.avail_in == 0 && at_ < end_) {
        const std::int64_t some =
            std::min<std::int64_t>(end_ - at_, static_cast<std::int64_t>(input_.size()));
        file_.read(at_, input_.data(), some);
        at_ += some;
        stream_.next_in = input_.data();
        stream_.avail_in = static_cast<unsigned>(some);
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      ended_ = result == Z_STREAM_END;
      if (result == Z_BUF_ERROR) refuse("its compressed data ends too early");
      if (result != Z_OK && !ended_) refuse("its compressed data is damaged");
    }
    return count - stream_.avail_out;
  }

  [[noreturn]] void refuse(const std::string& reason) const {
    throw FileError(file_.path(), "member " + in_quotes(member_.name), reason);
  }

 private:
  const FileBytes& file_;
  const ZipMember& member_;
  std::int64_t at_, end_;
  z_stream stream_{};
  bool ended_ = false;
  std::vector<unsigned char> input_ = std::vector<unsigned char>(64 << 10);
};

}  // namespace

std::vector<ZipMember> read_zip_directory(const FileBytes& file) {
  const DirectoryPlace place = find_directory(file);
  if (place.size > longest_directory) throw FileError(file.path(), "zip directory", "larger than 64 MiB");
  const Record directory(file, place.offset, place.size);
  std::vector<ZipMember> members;
  for (std::int64_t at = 0; at + 46 <= directory.size();) {
    const auto refuse = [&](const char* reason) {
      throw FileError(file.path(), fmt::format("byte {}", place.offset + at), reason);
    };
    if (std::memcmp(directory.data() + at, "PK\x01\x02", 4) != 0) refuse("the zip directory is damaged");
    const auto name_bytes = static_cast<std::int64_t>(directory.number(at + 28, 2));
    const auto extra_bytes = static_cast<std::int64_t>(directory.number(at + 30, 2));
    const std::int64_t next =
        at + 46 + name_bytes + extra_bytes + static_cast<std::int64_t>(directory.number(at + 32, 2));
    if (next > directory.size()) refuse("the zip directory is damaged");
    std::uint64_t stored = directory.number(at + 20, 4), bytes = directory.number(at + 24, 4);
    std::uint64_t offset = directory.number(at + 42, 4);
    read_zip64(directory.data() + at + 46 + name_bytes, extra_bytes, {&bytes, &stored, &offset});
    ZipMember member;
    member.name.assign(reinterpret_cast<const char*>(directory.data()) + at + 46,
                       static_cast<std::size_t>(name_bytes));
    member.encrypted = (directory.number(at + 8, 2) & 1) != 0;
    member.method = static_cast<int>(directory.number(at + 10, 2));
    member.crc = static_cast<std::uint32_t>(directory.number(at + 16, 4));
    member.stored_bytes = checked_offset(file, stored);
    member.header_offset = checked_offset(file, offset);
    if (bytes >> 62 != 0) refuse("a member declares more than 2^62 bytes");
    member.bytes = static_cast<std::int64_t>(bytes);
    members.push_back(std::move(member));
    at = next;
  }
  return members;
}

std::shared_ptr<const ByteSource> open_zip_member(const std::shared_ptr<const FileBytes>& file,
                                                  const ZipMember& member,
                                                  void (*check)(std::shared_ptr<const ByteSource>,
                                                                const std::string&, const std::string&)) {
  const auto refuse = [&](const std::string& reason) {
    throw FileError(file->path(), "member " + in_quotes(member.name), reason);
  };
  if (member.encrypted) refuse("encrypted");
  const Record header(*file, member.header_offset, 30);
  if (!header.starts_with("PK\x03\x04")) refuse("no local header where the directory says");
  const std::int64_t data = member.header_offset + 30 + static_cast<std::int64_t>(header.number(26, 2)) +
                            static_cast<std::int64_t>(header.number(28, 2));
  if (data > file->size() || member.stored_bytes > file->size() - data) refuse("the file ends within it");
  if (member.method == 0) {
    if (member.bytes != member.stored_bytes) refuse("stored, but with two different sizes");
    auto contents = std::make_shared<BytesWithin>(file, data, member.bytes);
    std::vector<unsigned char> piece(256 << 10);
    uLong crc = crc32(0, nullptr, 0);
    for (std::int64_t at = 0; at < member.bytes;) {
      const std::int64_t some = std::min(member.bytes - at, static_cast<std::int64_t>(piece.size()));
      contents->read(at, piece.data(), some);
      crc = crc32(crc, piece.data(), static_cast<uInt>(some));
      at += some;
    }
    if (crc != member.crc) refuse("its checksum is wrong");
    return contents;
  }
  if (member.method != 8)
    refuse(fmt::format("compression method {}; stored and deflate are read", member.method));
  if (member.bytes / most_expansion > member.stored_bytes + 1 ||
      (member.bytes > bomb_bytes && member.bytes / bomb_expansion > member.stored_bytes))
    refuse(fmt::format("declares {} bytes in {} compressed ones, as a zip bomb does", member.bytes,
                       member.stored_bytes));

  std::vector<unsigned char> start(static_cast<std::size_t>(std::min(member.bytes, start_bytes)));
  start.resize(Inflater(*file, member, data).next(start.data(), start.size()));
  check(std::make_shared<StartOfMember>(std::move(start), member.bytes, file->path()), file->path(),
        member.name);

  auto contents = std::make_shared<SpilledBytes>(file->path());
  Inflater inflater(*file, member, data);
  std::vector<unsigned char> piece(256 << 10);
  uLong crc = crc32(0, nullptr, 0);
  for (std::size_t got; (got = inflater.next(piece.data(), piece.size())) > 0;) {
    if (static_cast<std::int64_t>(got) > member.bytes - contents->size())
      refuse("expands past its declared size");
    crc = crc32(crc, piece.data(), static_cast<uInt>(got));
    contents->append(piece.data(), got);
  }
  if (contents->size() < member.bytes) refuse("ends before its declared size");
  if (crc != member.crc) refuse("its checksum is wrong");
  return contents;
}

}  // namespace dropless::traces
