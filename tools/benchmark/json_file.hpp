// Writing a benchmark's figures.
#pragma once
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "dropless/error.hpp"

namespace dropless::benchmark {

/// Replaces the file; throws FileError where it cannot be written.
inline void write_json(const std::string& path, const nlohmann::ordered_json& json) {
  std::ofstream file(path);
  file << json.dump(1) << std::endl;
  if (!file) throw FileError(path, "", "cannot be written");
}

}  // namespace dropless::benchmark
