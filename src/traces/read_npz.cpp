// .npz: a zip archive of .npy members.
#include <fmt/format.h>

#include "traces/array_trace.hpp"
#include "traces/choose_array.hpp"
#include "traces/line_reader.hpp"
#include "traces/npy_header.hpp"
#include "traces/readers.hpp"
#include "traces/zip_directory.hpp"

namespace dropless::traces {
namespace {

std::string place_of(const std::string& member) { return "member " + in_quotes(member); }

void check_header(std::shared_ptr<const ByteSource> start, const std::string& path,
                  const std::string& member) {
  std::int64_t trailing_bytes = 0;
  read_npy_header(std::move(start), path, place_of(member), trailing_bytes);
  if (trailing_bytes > 0)
    throw FileError(path, place_of(member),
                    fmt::format("declares {} bytes more than its array has", trailing_bytes));
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

std::unique_ptr<Trace> open_npz(const FilePointer& file, const TraceOptions& options) {
  std::vector<ZipMember> members;
  std::vector<NamedArray> arrays;
  for (ZipMember& member : read_zip_directory(*file)) {
    if (ends_with(member.name, "data.pkl"))
      throw FileError(
          file->path(), place_of(member.name),
          "a PyTorch file runs code when it is loaded, so it is not read; convert it where you trust it, "
          "with torch.load and numpy.save");
    if (!ends_with(member.name, ".npy")) continue;
    arrays.push_back({member.name.substr(0, member.name.size() - 4), false});
    members.push_back(std::move(member));
  }
  const ZipMember& member = members.at(choose_array(arrays, file->path()));
  ArrayOrigin origin;
  origin.path = file->path();
  origin.format = "npz";
  origin.place = place_of(member.name);
  std::int64_t trailing_bytes = 0;
  ArraySpec array = read_npy_header(open_zip_member(file, member, check_header), file->path(), origin.place,
                                    trailing_bytes);
  return open_array_trace(std::move(array), std::move(origin), options);
}

}  // namespace dropless::traces
