// The header of numpy's .npy container, versions 1 to 3.
#pragma once
#include <memory>
#include <string>

#include "traces/array_spec.hpp"

namespace dropless::traces {

/// The array of the .npy file that fills `bytes`. `place` is put before the place of every error (a member's
/// name, or empty). Throws FileError where the header is malformed, the type is not a number, or the body is
/// shorter than the shape promises. Bytes after the body are allowed and counted in `trailing_bytes`.
ArraySpec read_npy_header(std::shared_ptr<const ByteSource> bytes, const std::string& path,
                          const std::string& place, std::int64_t& trailing_bytes);

}  // namespace dropless::traces
