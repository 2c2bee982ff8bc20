// The directory of a zip archive (zip64 included) and the contents of its members, stored or deflated.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "traces/byte_source.hpp"

namespace dropless::traces {

struct ZipMember {
  std::string name;
  int method = 0;  ///< 0 stored, 8 deflate
  bool encrypted = false;
  std::uint32_t crc = 0;
  std::int64_t stored_bytes = 0;
  std::int64_t bytes = 0;  ///< once inflated, as declared
  std::int64_t header_offset = 0;
};

/// Throws FileError where the archive is damaged.
std::vector<ZipMember> read_zip_directory(const FileBytes& file);

/// The member's contents: the file's own bytes where they are stored, else inflated (to memory or a temporary
/// file). Before all of it is inflated `check` is called with its first bytes, up to 1 MiB, as a source of
/// the declared size, so that a member whose own header contradicts that size is refused early. Throws
/// FileError for other methods, encryption, wrong sizes or checksums, and what expands as only a zip bomb
/// does.
std::shared_ptr<const ByteSource> open_zip_member(const std::shared_ptr<const FileBytes>& file,
                                                  const ZipMember& member,
                                                  void (*check)(std::shared_ptr<const ByteSource> start,
                                                                const std::string& path,
                                                                const std::string& member));

}  // namespace dropless::traces
