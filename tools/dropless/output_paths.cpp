// Which outputs would take the place of an input, found out before anything is opened.
#include "output_paths.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "dropless/error.hpp"
#include "traces/readers.hpp"

namespace {

namespace fs = std::filesystem;

bool same_file(const std::string& a, const std::string& b) {
  std::error_code ignored;
  const bool a_exists = fs::exists(a, ignored), b_exists = fs::exists(b, ignored);
  if (a_exists != b_exists) return false;
  if (a_exists) return fs::is_regular_file(a, ignored) && fs::equivalent(a, b, ignored);
  return fs::weakly_canonical(fs::absolute(a, ignored), ignored) ==
         fs::weakly_canonical(fs::absolute(b, ignored), ignored);
}

/// The input itself, or each file of a folder that may be a rank's.
std::vector<NamedPath> files_of(const NamedPath& input) {
  std::error_code ignored;
  if (!fs::is_directory(input.path, ignored)) return {input};
  std::vector<NamedPath> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(input.path, ignored))
    if (dropless::traces::may_be_ranks_file(entry.path().filename().string()))
      files.push_back({"in the folder of " + input.name, entry.path().string()});
  return files;
}

}  // namespace

void refuse_overwriting(const std::vector<NamedPath>& inputs, const std::vector<NamedPath>& outputs) {
  std::vector<NamedPath> kept;
  for (const NamedPath& input : inputs)
    for (NamedPath& file : files_of(input)) kept.push_back(std::move(file));
  for (const NamedPath& output : outputs) {
    if (output.path.empty()) continue;
    for (const NamedPath& file : kept)
      if (same_file(output.path, file.path))
        throw dropless::Error(
            output.name, "'" + output.path + "'",
            fmt::format("another file than '{}' ({}), which it would overwrite", file.path, file.name));
    kept.push_back(output);
  }
}
