// The header of a safetensors file: names, types and places of its tensors.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "traces/array_spec.hpp"

namespace dropless::traces {

struct Tensor {
  std::string name;
  std::string type;       ///< as the file says: "I64", "BF16"
  bool integers = false;  ///< whether `array.number` describes it; other types are not read
  ArraySpec array;
};

/// Throws FileError where the header is malformed or a tensor lies outside the file.
std::vector<Tensor> read_safetensors_header(const std::shared_ptr<const FileBytes>& file);

}  // namespace dropless::traces
