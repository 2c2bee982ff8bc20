// Archives and tensor files for tests, written by the test itself.
#pragma once
#include <zlib.h>

#include <cstdint>
#include <string>
#include <vector>

/// `value` in `count` bytes, least significant first.
inline std::string little_endian(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i, value >>= 8) bytes += static_cast<char>(value & 255);
  return bytes;
}

inline std::string deflated(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, static_cast<uLong>(content.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

/// A zip archive of one member. What the directory declares can be made wrong.
struct TestZip {
  std::string name = "data.npy";
  std::string content;
  bool deflate = true;
  bool zip64 = false;
  bool encrypted = false;
  std::int64_t declared_bytes = -1;  ///< -1: the truth
  std::uint32_t crc_error = 0;

  std::string bytes() const {
    const std::string data = deflate ? deflated(content) : content;
    const std::uint64_t size =
        declared_bytes < 0 ? content.size() : static_cast<std::uint64_t>(declared_bytes);
    const auto crc = static_cast<std::uint32_t>(
        crc32(0, reinterpret_cast<const Bytef*>(content.data()), static_cast<uInt>(content.size())) ^
        crc_error);
    const std::string extra = zip64 ? little_endian(1, 2) + little_endian(16, 2) + little_endian(size, 8) +
                                          little_endian(data.size(), 8)
                                    : "";
    const std::string common = little_endian(45, 2) + little_endian(encrypted ? 1 : 0, 2) +
                               little_endian(deflate ? 8 : 0, 2) + little_endian(0, 4) +
                               little_endian(crc, 4) + little_endian(zip64 ? 0xffffffff : data.size(), 4) +
                               little_endian(zip64 ? 0xffffffff : size, 4) + little_endian(name.size(), 2) +
                               little_endian(extra.size(), 2);
    const std::string local = "PK\x03\x04" + common + name + extra + data;
    const std::string directory =
        "PK\x01\x02" + little_endian(45, 2) + common + little_endian(0, 14) + name + extra;
    std::string end;
    if (zip64)
      end = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
            little_endian(0, 8) + little_endian(1, 8) + little_endian(1, 8) +
            little_endian(directory.size(), 8) + little_endian(local.size(), 8) + "PK\x06\x07" +
            little_endian(0, 4) + little_endian(local.size() + directory.size(), 8) + little_endian(1, 4);
    end += "PK\x05\x06" + little_endian(0, 4) + little_endian(1, 2) + little_endian(1, 2) +
           little_endian(zip64 ? 0xffffffff : directory.size(), 4) +
           little_endian(zip64 ? 0xffffffff : local.size(), 4) + little_endian(0, 2);
    return local + directory + end;
  }
};

/// A safetensors file: the header's JSON, then the body.
inline std::string safetensors_bytes(const std::string& header, const std::string& body) {
  return little_endian(header.size(), 8) + header + body;
}
